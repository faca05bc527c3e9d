package labels

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/anndb/anndb/internal/checkpoint"
)

var errInterrupted = errors.New("interrupted")

// interrupting keeps results in a folder, and ends the computation by an error once it has kept so many.
type interrupting struct {
	*checkpoint.Folder
	left int
}

func (k *interrupting) Save(name string, from ...any) error {
	if err := k.Folder.Save(name, from...); err != nil {
		return err
	}
	if k.left--; k.left == 0 {
		return errInterrupted
	}
	return nil
}

// Wherever ApproximateNeighbors is interrupted, a repeated call continues from there and has the answer of
// one that was not.
func TestApproximateNeighborsContinues(t *testing.T) {
	for name, rows := range map[string]table{
		"floats": clusters(2500, 40, false, 1), "bytes": clusters(2500, 40, true, 2),
	} {
		reduced, outside := leading(rows, 8)
		// No lists reach this recall, so there are several rounds.
		o := ApproximateOptions{Seed: 1, Target: 1.1, Outside: outside}
		want := approximate(t, rows, reduced, 10, o)
		if want.Rounds < 2 {
			t.Fatalf("%s: %d rounds", name, want.Rounds)
		}
		// The state is kept before the first round and after each.
		for saves := 1; saves <= want.Rounds+1; saves++ {
			folder, err := checkpoint.Open(t.TempDir())
			must(t, err)
			o := o
			o.Keep = &interrupting{folder, saves}
			if _, err := ApproximateNeighbors(t.Context(), rows, reduced, 10, o, nil); !errors.Is(err, errInterrupted) {
				t.Fatalf("%s: interrupted after %d results: %v", name, saves, err)
			}
			rest := &interrupting{folder, 100}
			o.Keep = rest
			got := approximate(t, rows, reduced, 10, o)
			if done := 100 - rest.left; done != want.Rounds+1-saves {
				t.Errorf("%s: %d results after the interruption at %d of %d", name, done, saves, want.Rounds+1)
			}
			if !slices.Equal(got.Neighbors.IDs, want.Neighbors.IDs) || !slices.Equal(got.Neighbors.KDist, want.Neighbors.KDist) ||
				!slices.Equal(got.Exact.IDs, want.Exact.IDs) || !slices.Equal(got.Exact.KDist, want.Exact.KDist) ||
				got.Exact.N != want.Exact.N || got.Exact.K != want.Exact.K ||
				got.Rounds != want.Rounds || got.Recall != want.Recall || got.HeadRecall != want.HeadRecall {
				t.Errorf("%s: another answer after an interruption at %d: recall %g in %d rounds, want %g in %d",
					name, saves, got.Recall, got.Rounds, want.Recall, want.Rounds)
			}
		}
	}
}

// forged has states that no call has saved.
type forged struct {
	numbers, pool      []uint64
	exact, order       []uint32
	distances          []float32
	saved, wantsToFail bool
}

func (f *forged) Load(_ string, into ...any) (bool, error) {
	*into[0].(*[]uint64), *into[4].(*[]uint64) = f.numbers, f.pool
	*into[1].(*[]uint32), *into[3].(*[]uint32) = f.exact, f.order
	*into[2].(*[]float32) = f.distances
	if f.wantsToFail {
		return false, errInterrupted
	}
	return true, nil
}

func (f *forged) Save(string, ...any) error { f.saved = true; return nil }

// A state that does not fit the rows is not used.
func TestApproximateNeighborsIgnoresOtherStates(t *testing.T) {
	rows := clusters(2500, 40, false, 1)
	reduced, outside := leading(rows, 8)
	o := ApproximateOptions{Seed: 1, Outside: outside}
	want := approximate(t, rows, reduced, 10, o)
	n, pooled, sample := 2500, graphPool, sampleRows
	fitting := func() *forged {
		f := &forged{numbers: make([]uint64, 4), pool: make([]uint64, n*pooled), exact: make([]uint32, sample*10),
			order: make([]uint32, n), distances: make([]float32, sample)}
		f.numbers[0], f.numbers[1] = 1, 1
		return f
	}
	f := fitting()
	o.Keep = f
	if a := approximate(t, rows, reduced, 10, o); f.saved || a.Rounds != 1 || a.Neighbors.IDs[5] != 0 {
		t.Fatal("the state that the others differ from is not used")
	}
	for name, change := range map[string]func(f *forged){
		"no numbers":           func(f *forged) { f.numbers = nil },
		"too many rounds":      func(f *forged) { f.numbers[0] = exactRounds + 1 },
		"other rows":           func(f *forged) { f.order = f.order[1:] },
		"a row out of range":   func(f *forged) { f.order[7] = uint32(n) },
		"a short pool":         func(f *forged) { f.pool = f.pool[1:] },
		"a place out of range": func(f *forged) { f.pool[7] = uint64(n) },
		"another sample":       func(f *forged) { f.exact = f.exact[10:] },
		"no distances":         func(f *forged) { f.distances = nil },
		"a sampled row":        func(f *forged) { f.exact[7] = uint32(n) },
		"exact lists too soon": func(f *forged) { f.numbers[0] = 0 },
	} {
		f := fitting()
		change(f)
		o.Keep = f
		a := approximate(t, rows, reduced, 10, o)
		if !f.saved || !slices.Equal(a.Neighbors.IDs, want.Neighbors.IDs) {
			t.Errorf("%s: the state was used", name)
		}
	}
	o.Keep = &forged{wantsToFail: true}
	if _, err := ApproximateNeighbors(context.Background(), rows, reduced, 10, o, nil); !errors.Is(err, errInterrupted) {
		t.Errorf("a state that cannot be read: %v", err)
	}
}
