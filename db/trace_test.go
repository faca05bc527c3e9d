package db_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/db/trace"
)

// spans collects spans, and the contexts that they came with.
type spans struct {
	mu   sync.Mutex
	list []trace.Span
	ctx  []context.Context
}

func (s *spans) add(ctx context.Context, sp trace.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.ctx = append(s.list, sp), append(s.ctx, ctx)
}

// take returns the only span since the last call, with the parts that a test can know.
func (s *spans) take(t *testing.T, names ...string) (sp trace.Span) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(x trace.Span) bool { return !slices.Contains(names, x.Name) })
	if len(s.list) != 1 {
		t.Fatalf("spans %+v, want one of %q", s.list, names)
	}
	sp = s.list[0]
	if sp.Duration <= 0 || time.Since(sp.Start) > time.Hour {
		t.Errorf("span %+v without a time", sp)
	}
	s.list, s.ctx, sp.Start, sp.Duration = nil, nil, time.Time{}, 0
	return sp
}

// TestTrace checks the span of each call, and the totals.
func TestTrace(t *testing.T) {
	var got spans
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "a"), &db.Options{
		NoSync: true, Trace: got.add, Maintenance: &maintenance.Policy{Manual: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "request")
	if _, err := d.Create(ctx, "docs", db.Schema{Dim: 4}); err != nil {
		t.Fatal(err)
	}
	docs := d.Collection("docs")
	put := func(n int, expires time.Time) {
		t.Helper()
		err := d.Update(ctx, func(tx *db.Tx) error {
			for i := range n {
				r := db.Row{
					Key: fmt.Appendf(nil, "%d-%d", n, i), Vector: []float32{float32(i), float32(n), 1, 2},
					Labels: []string{"a"}, ExpiresAt: expires,
				}
				if err := tx.Collection("docs").Put(r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func(want trace.Span) {
		t.Helper()
		sp := got.take(t, want.Name)
		if want.Bytes < 0 && sp.Bytes > 0 {
			sp.Bytes = want.Bytes
		}
		if (sp.Err == nil) == (want.Err == nil) && (want.Err == nil || errors.Is(sp.Err, want.Err)) {
			sp.Err = want.Err
		}
		if sp != want {
			t.Errorf("span %+v, want %+v", sp, want)
		}
	}
	put(200, time.Time{})
	if v := got.ctx[len(got.ctx)-1].Value(key{}); v != "request" {
		t.Errorf("the context of a commit has the value %v", v)
	}
	check(trace.Span{Name: trace.Commit, Collection: "docs", Rows: 200, Bytes: -1})
	if _, err := docs.Build(ctx, "f", &index.Forest{Trees: 2, LeafNeighbors: 8}, nil); err != nil {
		t.Fatal(err)
	}
	check(trace.Span{Name: trace.Build, Collection: "docs", Index: "f", Rows: 200})
	q := db.Query{Vector: []float32{1, 2, 3, 4}}
	if _, err := docs.Search(ctx, q, &db.SearchOptions{Index: db.Flat, K: 3}); err != nil {
		t.Fatal(err)
	}
	check(trace.Span{Name: trace.Search, Collection: "docs", Index: db.Flat, Queries: 1, Results: 3, Rows: 200})
	if _, err := docs.SearchBatch(ctx, []db.Query{q, q}, &db.SearchOptions{Index: db.Flat, K: 3}); err != nil {
		t.Fatal(err)
	}
	check(trace.Span{Name: trace.Search, Collection: "docs", Index: db.Flat, Queries: 2, Results: 6, Rows: 400})
	if _, err := docs.Predict(ctx, q, nil); err == nil {
		t.Fatal("no error without a model")
	}
	check(trace.Span{Name: trace.Predict, Collection: "docs", Queries: 1, Err: db.ErrNotFound})
	err = d.View(func(s *db.Snapshot) error {
		_, err := s.Collection("none").Search(ctx, q, nil)
		return err
	})
	if err == nil {
		t.Fatal("no error without a collection")
	}
	check(trace.Span{Name: trace.Search, Collection: "none", Queries: 1, Err: db.ErrNotFound})
	put(3, time.Now().Add(-time.Hour))
	check(trace.Span{Name: trace.Commit, Collection: "docs", Rows: 3, Bytes: -1})
	steps, err := d.Maintain(ctx, 0, nil)
	if err != nil || len(steps) == 0 || steps[0].Action != "expire" {
		t.Fatalf("steps %+v: %v", steps, err)
	}
	check(trace.Span{Name: "expire", Collection: "docs", Rows: 3})
	if err := d.Compact(ctx, nil); err != nil {
		t.Fatal(err)
	}
	check(trace.Span{Name: trace.Compact, Bytes: -1})
	st, err := d.Stats()
	want := trace.Totals{
		Searches: 4, Predictions: 1, RowsWritten: 206, Commits: st.Commits, BytesWritten: st.BytesWritten,
	}
	if err != nil || st.Totals != want || st.Commits < 4 || st.BytesWritten < 200*16 {
		t.Errorf("totals %+v, want %+v: %v", st.Totals, want, err)
	}
}

// TestTraceAllocations checks that a search with memory of its own allocates nothing, traced or not.
func TestTraceAllocations(t *testing.T) {
	for _, f := range []trace.Func{nil, func(context.Context, trace.Span) {}} {
		d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "a"), &db.Options{NoSync: true, Trace: f})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		docs := d.Collection("docs")
		if _, err := d.Create(t.Context(), "docs", db.Schema{Dim: 2}); err != nil {
			t.Fatal(err)
		}
		err = d.Update(t.Context(), func(tx *db.Tx) error {
			return tx.Collection("docs").Put(db.Row{Key: []byte("a"), Vector: []float32{1, 2}})
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := d.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		docs = s.Collection("docs")
		q, o := db.Query{Vector: []float32{1, 2}}, &db.SearchOptions{Index: db.Flat}
		res, err := docs.Search(t.Context(), q, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Reuse = res.Hits
		ctx := t.Context()
		n := testing.AllocsPerRun(100, func() { _, err = docs.Search(ctx, q, o) })
		if err != nil || n > 0 && !racing {
			t.Errorf("%v allocations of a search with Trace %v: %v", n, f != nil, err)
		}
	}
}
