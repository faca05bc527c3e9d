package db_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/vector"
)

// TestLoad streams rows through one reused buffer, some keys twice, and stops
// at errors with what it has acknowledged.
func TestLoad(t *testing.T) {
	t.Parallel()
	const n, dim, payload = 900, 4, 100 << 10 // several transactions
	b := newBed(t, vector.L2, dim)
	vec, cold := make([]float32, dim), make([]byte, payload)
	stream := func(fail error) func(yield func(db.Row, error) bool) {
		return func(yield func(db.Row, error) bool) {
			for i := range n {
				vec[0], cold[0] = float32(i), byte(i)
				// Every tenth key comes again at once, and the first at the end.
				key := fmt.Sprintf("k%d", i)
				if i%10 == 1 {
					key = fmt.Sprintf("k%d", i-1)
				}
				if i == n-1 {
					key = "k0"
				}
				if !yield(db.Row{Key: []byte(key), Vector: vec, Payload: cold}, nil) {
					return
				}
			}
			if fail != nil {
				yield(db.Row{}, fail)
			}
		}
	}
	var steps []int
	got, err := b.D.Collection("c").Load(context.Background(), stream(nil),
		&db.LoadOptions{Run: *dbtest.Reporting(func(p dbtest.Progress) { steps = append(steps, p.Done) })})
	if err != nil || got != n || len(steps) < 3 || steps[len(steps)-1] != n {
		t.Fatalf("loaded %d of %d rows in steps %v: %v", got, n, steps, err)
	}
	b.Must(b.D.View(func(s *db.Snapshot) error {
		if c, err := s.Collection("c").Count(t.Context(), nil); err != nil || c != n-n/10-1 {
			t.Errorf("%d rows, %v", c, err)
		}
		for key, want := range map[string]float32{"k0": n - 1, "k10": 11, "k12": 12} {
			r, err := s.Collection("c").Get([]byte(key))
			if err != nil || r.Vector[0] != want || len(r.Payload) != payload || r.Payload[0] != byte(want) {
				t.Errorf("%s: %v, %v, want %v", key, r.Vector, err, want)
			}
		}
		for i := 2; i < n-1; i++ { // the memory of vectors is used again by later transactions
			r, err := s.Collection("c").Get(fmt.Appendf(nil, "k%d", i))
			if i%10 > 1 && (err != nil || r.Vector[0] != float32(i)) {
				t.Errorf("k%d: %v, %v", i, r.Vector, err)
			}
		}
		return nil
	}))
	broken := errors.New("broken")
	got, err = b.D.Collection("c").Load(context.Background(), stream(broken), nil)
	if !errors.Is(err, broken) || got == 0 || got >= n {
		t.Errorf("loaded %d rows: %v", got, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got, err := b.D.Collection("c").Load(ctx, stream(nil), nil); got != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled load: %d, %v", got, err)
	}
	if got, err := b.D.Collection("none").Load(context.Background(), stream(nil), nil); got != 0 || !errors.Is(err, db.ErrNotFound) {
		t.Errorf("load into nothing: %d, %v", got, err)
	}
	bad := func(yield func(db.Row, error) bool) { yield(db.Row{Key: []byte("x"), Vector: vec[:2]}, nil) }
	if got, err := b.D.Collection("c").Load(context.Background(), bad, nil); got != 0 || !errors.Is(err, db.ErrInvalid) {
		t.Errorf("load of a bad row: %d, %v", got, err)
	}
}
