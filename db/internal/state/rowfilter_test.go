package state_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// filterOf makes a filter from the latest state.
func filterOf(t *testing.T, d *db.DB, coll string, rows *roaring.Bitmap) *filter.Filter {
	t.Helper()
	f, err := d.Collection(coll).RowFilter(rows)
	dbtest.Must(t, err)
	return f
}

// filterBed is collections "dense" and "sparse" of 40 rows without a gap in their
// numbers, and a filter of some of each.
func filterBed(t *testing.T) (*db.DB, map[string]*filter.Filter) {
	t.Helper()
	d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
	ctx := t.Context()
	dbtest.Must(t, errors.Join(dbtest.Create(ctx, d, "dense", db.Schema{Dim: 2}), dbtest.Create(ctx, d, "sparse", db.Schema{Sparse: true})))
	for i := range 40 {
		dbtest.Must(t, putFiltered(d, "dense", i))
		dbtest.Must(t, putFiltered(d, "sparse", i))
	}
	rows := roaring.BitmapOf(3, 4, 17)
	return d, map[string]*filter.Filter{"dense": filterOf(t, d, "dense", rows), "sparse": filterOf(t, d, "sparse", rows)}
}

func putFiltered(d *db.DB, coll string, i int) error {
	r := db.Row{Key: fmt.Appendf(nil, "%02d", i)}
	if coll == "sparse" {
		r.Sparse = vector.Sparse{Index: []uint32{0, uint32(i % 5)}, Value: []float32{1, float32(i + 1)}}
		if i%5 == 0 {
			r.Sparse = vector.Sparse{Index: []uint32{0}, Value: []float32{1}}
		}
	} else {
		r.Vector = []float32{float32(i * 7 % 40), float32(i % 3)}
	}
	return dbtest.Put(d, coll, r)
}

// searchFiltered returns the keys of all rows that a filter passes, in order.
func searchFiltered(d *db.DB, coll string, f *filter.Filter) (keys []string, err error) {
	q := db.Query{Vector: []float32{1, 1}}
	if coll == "sparse" {
		q = db.Query{Sparse: vector.Sparse{Index: []uint32{0}, Value: []float32{1}}}
	}
	hits, _, err := dbtest.Nearest(context.Background(), d.Collection(coll), q, 100, &db.SearchOptions{Where: f})
	for _, h := range hits {
		keys = append(keys, string(h.Key))
	}
	slices.Sort(keys)
	return keys, err
}

// TestRowFilter: a filter holds as long as the rows have their numbers, and is
// refused afterwards.
func TestRowFilter(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		change func(d *db.DB) error
		moves  []string // collections whose rows get other numbers
	}{
		{"nothing", func(*db.DB) error { return nil }, nil},
		{"Update", func(d *db.DB) error { return errors.Join(putFiltered(d, "dense", 40), putFiltered(d, "sparse", 5)) }, nil},
		{"Compact", func(d *db.DB) error { return d.Compact(ctx, nil) }, nil},
		{"Reorder", func(d *db.DB) error { return d.Compact(ctx, &db.CompactOptions{Reorder: true}) }, []string{"dense"}},
		{"Reorder twice", func(d *db.DB) error {
			err := d.Compact(ctx, &db.CompactOptions{Reorder: true})
			again := d.Compact(ctx, &db.CompactOptions{Reorder: true})
			return errors.Join(err, again)
		}, []string{"dense"}},
		{"Compact without deleted rows", func(d *db.DB) error {
			for i := 20; i < 40; i++ {
				if err := putFiltered(d, "sparse", i); err != nil {
					return err
				}
			}
			err := d.Compact(ctx, nil)
			return err
		}, []string{"sparse"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, filters := filterBed(t)
			dbtest.Must(t, c.change(d))
			for coll, f := range filters {
				keys, err := searchFiltered(d, coll, f)
				switch want := []string{"03", "04", "17"}; {
				case slices.Contains(c.moves, coll):
					if !errors.Is(err, fail.Filter) {
						t.Errorf("%s: rows %v, error %v, want errFilter", coll, keys, err)
					}
				case err != nil || !slices.Equal(keys, want):
					t.Errorf("%s: rows %v, error %v, want %v", coll, keys, err, want)
				}
			}
		})
	}
}

// TestRowFilterMisuse: what is no filter of the collection is refused.
func TestRowFilterMisuse(t *testing.T) {
	d, filters := filterBed(t)
	other := dbtest.OpenTemp(t, &db.Options{NoSync: true})
	if _, err := other.Create(t.Context(), "dense", db.Schema{Dim: 2}); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*filter.Filter{
		"another collection": filters["sparse"],
		"another database":   filterOf(t, other, "dense", roaring.BitmapOf(1)),
	} {
		if keys, err := searchFiltered(d, "dense", f); !errors.Is(err, fail.Filter) {
			t.Errorf("%s: rows %v, error %v, want errFilter", name, keys, err)
		}
	}
	if keys, err := searchFiltered(d, "dense", filterOf(t, d, "dense", nil)); err != nil || len(keys) > 0 {
		t.Errorf("no rows: %v, %v", keys, err)
	}
	o := &db.SearchOptions{Params: &query.Params{Method: query.Flat, Filter: roaring.BitmapOf(1)}}
	_, _, err := dbtest.Nearest(t.Context(), d.Collection("dense"), db.Query{Vector: []float32{1, 1}}, 3, o)
	if !errors.Is(err, fail.Option) {
		t.Errorf("a bitmap in the parameters: %v, want errOption", err)
	}
}
