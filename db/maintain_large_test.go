package db

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/vector"
)

// TestMaintainLargeStep makes a step that is too large for the transaction that
// publishes it: it answers as a scan does and leaves nothing behind.
func TestMaintainLargeStep(t *testing.T) {
	t.Parallel()
	const rows, features = 5600, 3200
	ctx := t.Context()
	d, err := Open(ctx, filepath.Join(t.TempDir(), "a.anndb"), &Options{NoSync: true})
	must(t, err)
	defer d.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	put := func(from, to, width int) func() error {
		return func() error {
			return d.Update(ctx, func(b *Tx) error {
				for i := from; i < to; i++ {
					x := vector.Sparse{}
					for f := range width {
						if rng.IntN(8) > 0 {
							x.Index, x.Value = append(x.Index, uint32(f)), append(x.Value, 1+float32(rng.IntN(50)))
						}
					}
					if err := b.Collection("s").Put(Row{Key: fmt.Append(nil, i), Sparse: x}); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	err = errorsOf(
		func() error { return create(ctx, d, "s", Schema{Sparse: true}) },
		put(0, 30, 9),
		func() error {
			_, err := d.Collection("s").Build(ctx, "x", &Postings{}, nil)
			return err
		},
		put(30, rows, features),
	)
	must(t, err)
	steps, err := d.Maintain(ctx, 0, nil)
	if err != nil || len(steps) != 1 {
		t.Fatalf("steps %v, %v", steps, err)
	}
	err = d.View(func(s *Snapshot) error {
		info, err := s.Collection("s").Index("x")
		if err != nil {
			return err
		}
		// A step writes up to 16 MiB in one transaction.
		if n := info.Bytes["postings"]; n <= 16<<20 || info.Rows != rows {
			t.Errorf("an index of %d bytes and %d rows", n, info.Rows)
		}
		for range 5 {
			q := Query{Sparse: randomSparse(rng, 12, features)}
			var hits [2][]Hit
			for i, index := range []string{Flat, "x"} {
				if hits[i], _, err = nearest(ctx, s.Collection("s"), q, 9, &SearchOptions{Index: index}); err != nil {
					return err
				}
			}
			if !slices.EqualFunc(hits[0], hits[1], func(a, b Hit) bool { return a.Row == b.Row && a.Distance == b.Distance }) {
				t.Errorf("%v by scan, %v by the index", hits[0], hits[1])
			}
		}
		return nil
	})
	if err := errorsOf(func() error { return err }, func() error { return mustCheck(d) }, func() error { return mustLeaveNothing(d) }); err != nil {
		t.Error(err)
	}
}
