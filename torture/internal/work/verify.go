package work

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Batches is how many batches the latest state of a database holds.
func Batches(d *db.DB) (n int, err error) {
	err = d.View(func(s *db.Snapshot) error {
		n, err = batches(s)
		return err
	})
	return n, err
}

func batches(s *db.Snapshot) (int, error) {
	r, err := s.Collection(Dense).Get([]byte(lastKey))
	if errors.Is(err, db.ErrNotFound) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(r.Payload))
}

// Options are what tests open databases with: the small reservation costs less
// where thousands of files are opened.
func Options() *db.Options {
	return &db.Options{MapReserve: 1 << 32, Maintenance: &maintenance.Policy{Manual: true}}
}

// Verify opens the database at path, which makes it recover, and checks that it
// holds at least acked batches and at most acked + inFlight, that all of them
// are whole and nothing else is there, that Check finds nothing, that searches
// give the right answers by every index, and that recovery left no scratch
// files. It returns how many batches there are. Without a file there are none.
func (s Script) Verify(ctx context.Context, path string, acked, inFlight int) (n int, err error) {
	return s.VerifyWith(ctx, path, Options(), acked, inFlight)
}

// VerifyWith is Verify with options to open the file with.
func (s Script) VerifyWith(ctx context.Context, path string, o *db.Options, acked, inFlight int) (n int, err error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if acked > 0 {
			return 0, fmt.Errorf("%d batches were acknowledged and there is no file", acked)
		}
		return 0, nil
	}
	d, err := db.Open(ctx, path, o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if n, err = s.VerifyDB(ctx, d); err != nil {
		return n, err
	}
	if n < acked || n > acked+inFlight {
		return n, fmt.Errorf("%d batches were acknowledged, %d were on their way, the file holds %d", acked, inFlight, n)
	}
	return n, leftovers(path)
}

// VerifyDB checks an open database, of whatever number of batches.
func (s Script) VerifyDB(ctx context.Context, d *db.DB) (n int, err error) {
	if err := Check(ctx, d); err != nil {
		return 0, err
	}
	err = d.View(func(v *db.Snapshot) error {
		n, err = s.VerifySnapshot(ctx, v)
		return err
	})
	return n, err
}

// Check is DB.Check with all that it found in its error.
func Check(ctx context.Context, d *db.DB) error {
	var found []string
	if err := d.Check(ctx, func(p *db.CorruptError) { found = append(found, p.Error()) }, nil); err != nil {
		return fmt.Errorf("check: %w: %s", err, strings.Join(found, "; "))
	}
	return nil
}

// HasIndexes checks that all Indexes exist.
func (s Script) HasIndexes(d *db.DB) error {
	return d.View(func(v *db.Snapshot) error {
		for _, x := range s.Indexes() {
			if _, err := v.Collection(x.Collection).Index(x.Name); err != nil {
				return fmt.Errorf("a build was acknowledged: %w", err)
			}
		}
		return nil
	})
}

// leftovers looks for files of interrupted compactions beside the database.
func leftovers(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "."+filepath.Base(path)+".compact-") {
			return fmt.Errorf("left behind: %s", e.Name())
		}
	}
	return nil
}

// VerifySnapshot compares a snapshot with the state after the number of batches
// that it says it holds, and returns that number.
func (s Script) VerifySnapshot(ctx context.Context, v *db.Snapshot) (int, error) {
	n, err := batches(v)
	if err != nil {
		return n, err
	}
	m := s.model(n)
	if n == 0 {
		for _, c := range v.Collections() {
			if c.Live != 0 {
				return n, fmt.Errorf("collection %q has %d rows of no batch", c.Name, c.Live)
			}
		}
		return n, nil
	}
	for _, name := range collections {
		if err := sameRows(v, name, m.rows[name]); err != nil {
			return n, fmt.Errorf("after %d batches: %q: %w", n, name, err)
		}
	}
	rng := rand.New(rand.NewPCG(s.Seed, uint64(n)<<32))
	err = verifyDense(ctx, v, m, Dense, denseVector(rng, s.Dim))
	if err == nil {
		err = verifySparse(ctx, v, m, sparseVector(rng))
	}
	if err == nil {
		err = verifyTexts(ctx, v, m, db.Query{Text: words(rng), Vector: denseVector(rng, textDim)})
	}
	if err != nil {
		return n, fmt.Errorf("after %d batches: %w", n, err)
	}
	return n, nil
}

// sameRows compares all rows, keys, counts and labels of a collection.
func sameRows(v *db.Snapshot, name string, want map[string]db.Row) error {
	seen := 0
	for r, err := range v.Collection(name).Rows(context.Background(), nil) {
		if err != nil {
			return err
		}
		w, ok := want[string(r.Key)]
		if !ok {
			return fmt.Errorf("row %q should not be there", r.Key)
		}
		if err := sameRow(r, w); err != nil {
			return err
		}
		seen++
	}
	if n, err := v.Collection(name).Count(context.Background(), nil); err != nil || n != len(want) || seen != n {
		return fmt.Errorf("%d rows, %d counted, want %d: %w", seen, n, len(want), err)
	}
	labels, inRange := map[string]int{}, 0
	for key, w := range want {
		r, err := v.Collection(name).Get([]byte(key))
		if err != nil {
			return fmt.Errorf("get %q: %w", key, err)
		}
		if err := sameRow(r, w); err != nil {
			return fmt.Errorf("get: %w", err)
		}
		for _, l := range w.Labels {
			labels[l]++
		}
		if n, ok := w.Attributes["n"].(int64); ok && n >= 10 && n < 30 {
			inRange++
		}
	}
	n, err := v.Collection(name).Count(context.Background(), filter.Range("n", 10, 30))
	if err != nil || n != inRange {
		return fmt.Errorf("%d rows with an attribute from 10 to 30, want %d: %w", n, inRange, err)
	}
	counts, err := v.Collection(name).Labels()
	if err != nil {
		return err
	}
	if !maps.Equal(counts, labels) {
		return fmt.Errorf("labels %v, want %v", counts, labels)
	}
	return nil
}

// amber passes the rows that a search by label must find.
func amber(r db.Row) bool { return slices.Contains(r.Labels, labelNames[0]) }

// verifyDense compares exact scans and every forest of a collection with brute force.
func verifyDense(ctx context.Context, v *db.Snapshot, m model, coll string, q []float32) error {
	all, ambers := m.euclidean(coll, q, nil), m.euclidean(coll, q, amber)
	if len(all) == 0 {
		return nil
	}
	type ask struct {
		o     db.SearchOptions
		want  map[string]float64
		k     int
		exact bool
	}
	few := min(5, len(all))
	asks := []ask{
		{db.SearchOptions{Index: db.Flat}, all, few, true},
		{db.SearchOptions{Index: db.Flat, Where: filter.HasLabel(labelNames[:1]...)}, ambers, len(all), true},
	}
	indexes, err := v.Collection(coll).Indexes()
	if err != nil {
		return err
	}
	for _, x := range indexes {
		if _, ok := x.Options.(*index.Forest); !ok {
			continue
		}
		for _, p := range []query.Params{
			{Method: query.Natural, Sketch: true}, {Method: query.Voting, Votes: 1}, {Method: query.Lookup},
		} {
			// All rows are found only by widening to an exact scan.
			asks = append(asks,
				ask{db.SearchOptions{Index: x.Name, Params: &p}, all, few, false},
				ask{db.SearchOptions{Index: x.Name, Params: &p}, all, len(all), true})
		}
	}
	for _, a := range asks {
		a.o.K = a.k
		found, err := v.Collection(coll).Search(ctx, db.Query{Vector: q}, &a.o)
		if err == nil {
			err = sameHits(found.Hits, a.want, a.k, a.exact)
		}
		if err != nil {
			return fmt.Errorf("search of %q by %q, k = %d: %w", coll, a.o.Index, a.k, err)
		}
	}
	return nil
}

// verifySparse compares exact scans and every inverted index with brute force,
// and asks every label model.
func verifySparse(ctx context.Context, v *db.Snapshot, m model, q []vector.Feature) error {
	if len(m.rows[Sparse]) == 0 {
		return nil
	}
	all, ambers := m.cosine(q, nil), m.cosine(q, amber)
	names := []string{db.Flat}
	indexes, err := v.Collection(Sparse).Indexes()
	if err != nil {
		return err
	}
	ask := db.Query{Features: q}
	for _, x := range indexes {
		if _, ok := x.Options.(*index.Postings); ok {
			names = append(names, x.Name)
		} else if _, err := v.Collection(Sparse).Predict(ctx, ask, &db.PredictOptions{Index: x.Name, Top: 3}); err != nil {
			return fmt.Errorf("predict by %q: %w", x.Name, err)
		}
	}
	for _, name := range names {
		for _, k := range []int{3, len(m.rows[Sparse])} {
			found, err := v.Collection(Sparse).Search(ctx, ask, &db.SearchOptions{K: k, Index: name})
			if err == nil {
				err = sameHits(found.Hits, all, k, true)
			}
			if err != nil {
				return fmt.Errorf("sparse search by %q, k = %d: %w", name, k, err)
			}
		}
		found, err := v.Collection(Sparse).Search(ctx, ask,
			&db.SearchOptions{K: len(m.rows[Sparse]), Index: name, Where: filter.HasLabel(labelNames[:1]...)})
		if err == nil {
			err = sameHits(found.Hits, ambers, len(m.rows[Sparse]), true)
		}
		if err != nil {
			return fmt.Errorf("sparse search of a label by %q: %w", name, err)
		}
	}
	return nil
}

// sameHits compares an answer with the distances of all rows that may be in it:
// every hit is one of them with its distance, in order, and of an exact answer
// none is left out that is nearer.
func sameHits(hits []db.Hit, want map[string]float64, k int, exact bool) error {
	sorted := nearest(want)
	if len(hits) != min(k, len(sorted)) {
		return fmt.Errorf("%d hits, want %d of %d", len(hits), k, len(sorted))
	}
	close := func(a, b float64) bool { return math.Abs(a-b) <= 1e-5+1e-4*math.Abs(b) }
	seen := map[string]bool{}
	for i, h := range hits {
		key, d := string(h.Key), float64(h.Distance)
		w, ok := want[key]
		switch {
		case !ok || seen[key]:
			return fmt.Errorf("hit %d is %q, which is no answer or came twice", i, key)
		case !close(d, w):
			return fmt.Errorf("hit %d: distance %g of %q, want %g", i, d, key, w)
		case i > 0 && d < float64(hits[i-1].Distance):
			return fmt.Errorf("hit %d: distance %g after %g", i, d, hits[i-1].Distance)
		case exact && !close(d, sorted[i].distance):
			return fmt.Errorf("hit %d: distance %g, the scan has %g", i, d, sorted[i].distance)
		}
		seen[key] = true
	}
	return nil
}
