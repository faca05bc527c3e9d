package db_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// kindToy is a kind of index that is added here: a copy of a sparse collection's rows
// at unit length, which a search compares with one by one.
const kindToy = "toy"

func init() {
	db.Kinds()[kindToy] = toyKind{}
}

type toyKind struct{}

func (toyKind) Traits() kind.Traits {
	return kind.Traits{Sparse: true, Composes: true, Options: &Toy{}}
}
func (toyKind) Detail() kind.Detail { return &toyDetail{} }

// Toy are its options.
type Toy struct{}

func (*Toy) Name() string    { return kindToy }
func (*Toy) Check(int) error { return nil }

// toyDetail is the detail of a segment.
type toyDetail struct{ Cols int }

func (d *toyDetail) Check(*kind.Manifest, *kind.Segment) error { return nil }

// toy is a segment on its way to the file.
type toy struct{ rows *vector.CSR }

func (toyKind) Build(ctx context.Context, job *kind.Job) (kind.Built, error) {
	t := &toy{}
	return t, job.Latest(func(st kind.Source) error {
		set, err := st.Sparse(ctx)
		if err != nil {
			return err
		}
		t.rows, _, err = set.Matrix(ctx, job.First, job.End, st.Collection().Dim, func(int, int) {})
		return err
	})
}

func (t *toy) Describe(m *kind.Manifest) { m.Options = &Toy{} }

func (t *toy) Emit(w *arrays.Writer, g *kind.Segment) {
	g.Dead, g.Own = 0, &toyDetail{Cols: t.rows.Cols}
	toyArrays(w.Section(codec.KindPostings), t.rows)
}

func toyArrays(a *arrays.Section, rows *vector.CSR) {
	arrays.Field(a, 0, &rows.Ptr)
	arrays.Field(a, 1, &rows.Index)
	arrays.Field(a, 2, &rows.Value)
}

// toyIndex is a copy as one generation sees it.
type toyIndex struct {
	st   kind.Source
	rows vector.CSR
}

func (toyKind) Open(ctx context.Context, st kind.Source, m *kind.Manifest) (kind.Opened, error) {
	x := &toyIndex{st: st, rows: vector.CSR{Ptr: []uint64{0}, Value: []float32{}}}
	for _, g := range m.Segments {
		r := st.Arrays(ctx, m.Info.Name, g.Object)
		rows := &vector.CSR{Cols: g.Own.(*toyDetail).Cols}
		toyArrays(r.Section(codec.KindPostings), rows)
		r.Need(rows.Rows() == g.Rows && rows.Validate() == nil, "rows")
		if r.Err != nil {
			return nil, r.Err
		}
		for i := range rows.Rows() {
			x.rows.Append(rows.Row(i))
		}
		x.rows.Cols = max(x.rows.Cols, rows.Cols)
	}
	return x, nil
}

func (x *toyIndex) Check(context.Context) error { return x.rows.Validate() }

func (x *toyIndex) Search(ctx context.Context, s *kind.Search) error {
	set, err := x.st.Sparse(ctx)
	if err != nil {
		return err
	}
	for i := range x.rows.Rows() {
		row := uint32(i)
		if set.DeletedRows != nil && set.DeletedRows.Contains(row) || s.Rows != nil && !s.Rows.Contains(row) {
			continue
		}
		if score := vector.DotSparse(s.Features, x.rows.Row(i)); score > 0 {
			s.Hits = append(s.Hits, postings.Hit{Row: row, Score: score})
		}
	}
	return s.AfterIndex(ctx, set, x.rows.Rows())
}

// TestToyKind adds a kind of index and gets building, searching, maintenance, checks,
// repair, compaction and statistics for it.
func TestToyKind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toy.anndb")
	rng := rand.New(rand.NewPCG(1, 2))
	put := func(d *db.DB, from, to int) {
		t.Helper()
		dbtest.Fill(t, d, "s", from, to, func(i int) db.Row {
			return db.Row{Key: fmt.Append(nil, i), Sparse: dbtest.RandomSparse(rng, 8, 40)}
		})
	}
	// same fails unless the index covers n rows and finds what a scan does.
	same := func(d *db.DB, n, fresh int) {
		t.Helper()
		err := d.View(func(s *db.Snapshot) error {
			info, err := s.Collection("s").Index("x")
			if err != nil || info.Rows != n || info.Bytes["postings"] == 0 {
				t.Errorf("index %+v: %v", info, err)
			}
			q := db.Query{Sparse: dbtest.RandomSparse(rng, 8, 40)}
			want, _, err := dbtest.Nearest(t.Context(), s.Collection("s"), q, 9, &db.SearchOptions{Index: db.Flat})
			got, stats, err2 := dbtest.Nearest(t.Context(), s.Collection("s"), q, 9, nil)
			if err != nil || err2 != nil || len(got) == 0 || stats.Fresh != fresh || !reflect.DeepEqual(got, want) {
				t.Errorf("%d rows scanned: found %+v, want %+v: %v, %v", stats.Fresh, got, want, err, err2)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	var object uint64
	dbtest.WithFile(t, path, func(d *db.DB, _ *db.Snapshot) {
		dbtest.Must(t, dbtest.Create(t.Context(), d, "s", db.Schema{Sparse: true}))
		put(d, 0, 50)
		dbtest.Builds(t, d, "s", "x", &Toy{})
		same(d, 50, 0)
		put(d, 40, 60)
		same(d, 50, 20)
		steps, err := d.Maintain(t.Context(), 0, nil)
		if err != nil || len(steps) != 1 || steps[0].Action != "relearn" {
			t.Errorf("steps %+v: %v", steps, err)
		}
		same(d, 70, 0)
		if st, err := d.Stats(); err != nil || st.Indexes[0].Rows != 70 || st.Indexes[0].Segments != 1 {
			t.Errorf("stats %+v: %v", st.Indexes, err)
		}
	})
	dbtest.WithFile(t, path, func(_ *db.DB, s *db.Snapshot) { object = db.Inside(s).Collections["s"].Entry.Index("x").Parts[0] })
	dbtest.PutBlock(t, path, layout.BucketBlocks, codec.Key(object, codec.KindPostings, 1), make([]byte, 8))
	dbtest.WithFile(t, path, func(d *db.DB, _ *db.Snapshot) {
		if d.Check(t.Context(), nil, nil) == nil {
			t.Error("damage was not found")
		}
		if found, err := d.Repair(t.Context(), nil); err != nil || len(found) != 1 || found[0].Index != "x" {
			t.Errorf("repaired %+v: %v", found, err)
		}
		same(d, 70, 0)
	})
	dbtest.WithFile(t, path, func(d *db.DB, s *db.Snapshot) {
		put(d, 0, 35) // so that a third of the row numbers is of deleted rows
		s.Release()
		if err := d.Compact(t.Context(), nil); err != nil {
			t.Error(err)
		}
		same(d, 60, 0)
		if err := d.Check(t.Context(), func(p *db.CorruptError) { t.Error(p) }, nil); err != nil {
			t.Error(err)
		}
	})
}
