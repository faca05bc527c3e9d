package db

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/forestindex"
	"github.com/anndb/anndb/vector"
)

// repeated is n points, the first copies of which repeat as often as given.
func repeated(n, dim int, times func(i int) int) *forestindex.Training {
	rng := rand.New(rand.NewPCG(3, 3))
	rows := &forestindex.FlatRows{D: dim}
	for i := range n {
		x := make([]float32, dim)
		for j := range x {
			x[j] = float32(rng.NormFloat64())
		}
		for range times(i) {
			rows.Data = append(rows.Data, x...)
			rows.N++
		}
	}
	return &forestindex.Training{Own: true, Dim: dim, Metric: vector.L2, Corpus: forestindex.Subset{Rows: rows}, Points: forestindex.Subset{Rows: rows}}
}

// TestSplitKeepsTwinsTogether: a held-out query has no equal among the points that
// are learned from and searched, unless all points are equal.
func TestSplitKeepsTwinsTogether(t *testing.T) {
	for name, c := range map[string]struct {
		n       int
		times   func(i int) int
		count   int
		queries int // held out
		hidden  int // at most
	}{
		"no equals":       {1000, func(int) int { return 1 }, 100, 100, 100},
		"pairs":           {500, func(int) int { return 2 }, 100, 50, 100},
		"some pairs":      {600, func(i int) int { return 1 + i%2 }, 90, 50, 90},
		"20 times 100":    {20, func(int) int { return 100 }, 200, 10, 1000},
		"one large group": {200, func(i int) int { return 1 + 800*(1-min(i, 1)) }, 100, 100, 100},
		"all equal":       {1, func(int) int { return 300 }, 30, 30, 30},
	} {
		points := repeated(c.n, 5, c.times)
		s, err := points.SplitFor(WithWorkers(t.Context(), 2), forestindex.Options{Holdout: c.count, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Hold) < c.queries || len(s.Hidden) > c.hidden || len(s.Hidden)+len(s.Learn) != points.Points.Len() {
			t.Errorf("%s: %d queries, %d points hidden, %d learned from", name, len(s.Hold), len(s.Hidden), len(s.Learn))
		}
		for i, p := range [][]int{s.Learn, s.Hold, s.Hidden} {
			if !slices.IsSorted(p) {
				t.Errorf("%s: part %d is out of order", name, i)
			}
		}
		for _, q := range s.Hold {
			if !slices.Contains(s.Hidden, q) {
				t.Errorf("%s: query %d is not hidden", name, q)
			}
			for _, i := range append(s.Learn, s.Hold...) {
				if i != q && name != "all equal" && slices.Equal(points.Points.Row(i, nil), points.Points.Row(q, nil)) {
					t.Fatalf("%s: query %d equals point %d", name, q, i)
				}
			}
		}
		again, err := repeated(c.n, 5, c.times).SplitFor(WithWorkers(t.Context(), 1), forestindex.Options{Holdout: c.count, Seed: 7})
		if err != nil || !slices.Equal(again.Hold, s.Hold) || !slices.Equal(again.Hidden, s.Hidden) {
			t.Errorf("%s: another split with one goroutine: %v", name, err)
		}
	}
	zero := float32(math.Copysign(0, -1))
	if forestindex.HashVector([]float32{1, 0}) != forestindex.HashVector([]float32{1, zero}) || forestindex.HashVector([]float32{1, 0}) == forestindex.HashVector([]float32{0, 1}) {
		t.Error("hashes of equal vectors differ, or of others do not")
	}
}

// TestTrialHidesTwins: neither rows that are searched nor the true answers of a
// trial equal its queries.
func TestTrialHidesTwins(t *testing.T) {
	d, err := Open(t.TempDir()+"/x.anndb", &Options{Sync: Off})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	points := repeated(200, 6, func(i int) int { return 1 + i%3 })
	data := points.Points.Rows
	if _, err := d.Create(t.Context(), "c", Schema{Dim: data.D}); err != nil {
		t.Fatal(err)
	}
	err = d.Update(t.Context(), func(b *Tx) error {
		for i := range data.N {
			if err := b.Collection("c").Put(Row{Key: []byte{'a', byte(i), byte(i >> 8)}, Vector: data.Row(i, nil)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	timer := kind.NewTimer(t.Context())
	job := &building{Job: kind.Job{Coll: "c", Opts: &forestindex.Options{Seed: 1}, Timer: timer}}
	job.Latest = func(f func(st kind.Source) error) error { return d.latest(job, f) }
	tr, o, err := forestindex.TrainingSet(t.Context(), &job.Job)
	if err != nil {
		t.Fatal(err)
	}
	l, err := forestindex.LearnRest(t.Context(), tr, o, timer)
	if err != nil {
		t.Fatal(err)
	}
	err = d.View(func(s *Snapshot) error {
		view, err := s.gen.colls["c"].Rows(t.Context())
		if err != nil {
			return err
		}
		base := *view
		base.N = l.N
		trial, err := forestindex.NewTrial(t.Context(), s.gen.colls["c"], tr, &base, o)
		if err != nil {
			return err
		}
		if len(trial.Queries) < 10 {
			t.Errorf("%d queries", len(trial.Queries))
		}
		for i, q := range trial.Queries {
			for row := range data.N {
				if !trial.DeletedRows.Contains(uint32(row)) && slices.Equal(q, data.Row(row, nil)) {
					t.Fatalf("query %d equals row %d, which is searched", i, row)
				}
			}
			for _, row := range trial.Truth[i] {
				if trial.DeletedRows.Contains(row) {
					t.Fatalf("query %d: answer %d is hidden", i, row)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
