package labels

import (
	"errors"
	"math"
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

func (k *interrupting) Save(name string, from ...checkpoint.Array) error {
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
			folder := checkpoint.New(t.TempDir())
			o := o
			o.Checkpoints = &interrupting{folder, saves}
			_, err := ApproximateNeighbors(t.Context(), rows, reduced, 10, o, nil)
			if !errors.Is(err, errInterrupted) {
				t.Fatalf("%s: interrupted after %d results: %v", name, saves, err)
			}
			rest := &interrupting{folder, 100}
			o.Checkpoints = rest
			got := approximate(t, rows, reduced, 10, o)
			if done := 100 - rest.left; done != want.Rounds+1-saves {
				t.Errorf("%s: %d results after the interruption at %d of %d", name, done, saves, want.Rounds+1)
			}
			if !slices.Equal(got.Neighbors.IDs, want.Neighbors.IDs) ||
				!slices.Equal(got.Neighbors.KDist, want.Neighbors.KDist) ||
				!slices.Equal(got.Exact.IDs, want.Exact.IDs) || !slices.Equal(got.Exact.KDist, want.Exact.KDist) ||
				got.Exact.N != want.Exact.N || got.Exact.K != want.Exact.K ||
				got.Rounds != want.Rounds || got.Recall != want.Recall || got.HeadRecall != want.HeadRecall {
				t.Errorf("%s: another answer after an interruption at %d: recall %g in %d rounds, want %g in %d",
					name, saves, got.Recall, got.Rounds, want.Recall, want.Rounds)
			}
		}
	}
}

// TestApproximateNeighborsIgnoresOtherStates checks that a state that does not fit the input is not used.
func TestApproximateNeighborsIgnoresOtherStates(t *testing.T) {
	rows := clusters(2500, 40, false, 1)
	reduced, outside := leading(rows, 8)
	o := ApproximateOptions{Seed: 1, Outside: outside}
	want := approximate(t, rows, reduced, 10, o)
	n, pooled, m := 2500, graphPool, len(want.Sample)
	fitting := func() *state {
		x := &state{numbers: make([]uint64, stateNumbers), exact: make([]uint32, m*10), exactKDist: make([]float32, m),
			order: make([]uint32, n), pool: make([]uint64, n*pooled)}
		for _, row := range want.Sample {
			x.sample = append(x.sample, uint32(row))
		}
		for i := range x.order {
			x.order[i] = uint32(i)
		}
		x.numbers[stateRounds], x.numbers[stateEnded] = 1, 1
		return x
	}
	// from returns the answer of a call with a state, and whether it saved others.
	from := func(x *state) (a *Approximation, saved bool) {
		folder := checkpoint.New(t.TempDir())
		must(t, folder.Save(stateName, x.arrays()...))
		k := &interrupting{folder, 100}
		o.Checkpoints = k
		return approximate(t, rows, reduced, 10, o), k.left < 100
	}
	if a, saved := from(fitting()); saved || a.Rounds != 1 || a.Neighbors.IDs[5] != 0 {
		t.Fatal("the state that the others differ from is not used")
	}
	for name, change := range map[string]func(x *state){
		"no numbers":      func(x *state) { x.numbers = nil },
		"too many rounds": func(x *state) { x.numbers[stateRounds] = exactRounds + 1 },
		"an end too soon": func(x *state) {
			x.numbers[stateRounds], x.exact, x.exactKDist = 0, nil, nil
		},
		"no end after the last round": func(x *state) {
			x.numbers[stateRounds], x.numbers[stateEnded] = exactRounds, 0
		},
		"no recall":            func(x *state) { x.numbers[stateRecall] = math.Float64bits(math.NaN()) },
		"a recall above 1":     func(x *state) { x.numbers[stateHeadRecall] = math.Float64bits(2) },
		"other rows":           func(x *state) { x.order = x.order[1:] },
		"a row out of range":   func(x *state) { x.order[7] = uint32(n) },
		"a row twice":          func(x *state) { x.order[7] = 8 },
		"a short pool":         func(x *state) { x.pool = x.pool[1:] },
		"a place out of range": func(x *state) { x.pool[7] = uint64(n) },
		"another sample":       func(x *state) { x.sample[7]++ },
		"a smaller sample":     func(x *state) { x.exact = x.exact[10:] },
		"no distances":         func(x *state) { x.exactKDist = nil },
		"a listed row":         func(x *state) { x.exact[7] = uint32(n) },
		"exact lists too soon": func(x *state) { x.numbers[stateRounds] = 0 },
	} {
		x := fitting()
		change(x)
		if a, saved := from(x); !saved || !slices.Equal(a.Neighbors.IDs, want.Neighbors.IDs) {
			t.Errorf("%s: the state was used", name)
		}
	}
}
