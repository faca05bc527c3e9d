package autolabels

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// scored draws scores of some members for rows with labels: a member is the better the smaller its number.
func scored(rng *rand.Rand, rows, names, members int) (*labels.Matrix, []int, []*vector.CSR) {
	sets := make([][]uint32, rows)
	scores := make([]*vector.CSR, members)
	for m := range scores {
		scores[m] = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: names}
	}
	for r := range rows {
		for l := range names {
			if rng.IntN(2+l) == 0 {
				sets[r] = append(sets[r], uint32(l))
			}
		}
		for m := range scores {
			var x vector.Sparse
			for l := range names {
				score := rng.Float32() * (1.8 + float32(m)/10)
				for _, y := range sets[r] {
					if int(y) == l {
						score++
					}
				}
				if rng.IntN(5) > 0 {
					x.Index, x.Value = append(x.Index, uint32(l)), append(x.Value, score/3)
				}
			}
			scores[m].Append(x)
			scores[m].Cols = names
		}
	}
	truth, err := labels.FromSets(sets, names)
	if err != nil {
		panic(err)
	}
	counts := make([]int, names)
	for l := range counts {
		counts[l] = 4 * len(truth.Column(l))
	}
	return truth, counts, scores
}

// TestLeastError: the weights of each group of labels have the least squared error of all weights on the
// grid, computed pair by pair: that of the group, and that of all as of priorHits right labels. A group
// without labels has those of all.
func TestLeastError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		members := rapid.IntRange(1, 3).Draw(t, "members")
		truth, rows, scores := scored(rng, 60, 1+rng.IntN(20), members)
		h, err := newHeld(truth, rows, 1000, &index.Auto{}, scores)
		if err != nil {
			t.Fatal(err)
		}
		failure := func(w weights, group int) (sum float64) {
			prob := h.compose(w)
			for r := range truth.Rows() {
				truths := map[uint32]bool{}
				for _, l := range truth.Row(r) {
					truths[l] = true
				}
				x := prob.Row(r)
				for i, l := range x.Index {
					if group >= 0 && labels.Bucket(rows[l]) != group {
						continue
					}
					y := 0.
					if truths[l] {
						y = 1
					}
					sum += (float64(x.Value[i]) - y) * (float64(x.Value[i]) - y)
				}
			}
			return sum
		}
		all := make([]int, members)
		for m := range all {
			all[m] = m
		}
		of := h.moments()
		own, e := byBucket(&of, all)
		first, more := byBucket(&of, all[:1])
		right := 0
		for r := range truth.Rows() {
			right += len(truth.Row(r))
		}
		// chosenBy is what the weights of a group shall have the least of.
		chosenBy := func(w weights, group int) float64 {
			for m := range w {
				for b := range w[m] {
					w[m][b] = w[m][group]
				}
			}
			return failure(w, group) + priorHits*failure(w, -1)/float64(max(1, right))
		}
		change := more - e
		for b := range buckets {
			change += chosenBy(slices.Clone(own), b) - chosenBy(first, b)
		}
		if math.Abs(change) > 1e-3 {
			t.Fatalf("the error of weights is %g off", change)
		}
		tried := 0
		simplex(members, all, func(w []float64) {
			tried++
			other := make(weights, members)
			for m, x := range w {
				for b := range other[m] {
					other[m][b] = x
				}
			}
			for b := range buckets {
				if a, b := chosenBy(slices.Clone(own), b), chosenBy(other, b); a > b+1e-3 {
					t.Fatalf("weights %v have the error %g, %v %g", own, a, w, b)
				}
			}
		})
		if want := []int{1, weightSteps + 1, (weightSteps + 1) * (weightSteps + 2) / 2}[members-1]; tried != want {
			t.Fatalf("%d weights, want %d", tried, want)
		}
	})
}

// TestChoose: of two members that err apart from each other both are chosen, and the objective does not fall; a
// member that says nothing is left out.
func TestChoose(t *testing.T) {
	for _, o := range []lcif.Objective{
		lcif.MicroF1, lcif.MacroF1, lcif.PrecisionAt1, lcif.NDCGAt5, lcif.PropensityAt5,
	} {
		truth, rows, scores := scored(rand.New(rand.NewPCG(5, uint64(o))), 600, 12, 2)
		noise := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: 12}
		rng := rand.New(rand.NewPCG(6, 7))
		for range truth.Rows() {
			noise.Append(vector.Sparse{Index: []uint32{0, 5, 11}, Value: []float32{rng.Float32(), rng.Float32(), rng.Float32()}})
		}
		h, err := newHeld(truth, rows, 1000, &index.Auto{Objective: o}, append(scores, noise))
		if err != nil {
			t.Fatal(err)
		}
		best, err := h.choose([][]int{{0}, {1}, {2}, {0, 1}, {0, 2}, {0, 1, 2}}, enoughGain)
		if err != nil {
			t.Fatal(err)
		}
		for m := range 3 {
			one, err := h.choose([][]int{{m}}, 0)
			if err != nil || one.value > best.value {
				t.Errorf("%v: member %d alone has %g, the choice %g, %v", o, m, one.value, best.value, err)
			}
		}
		if list := best.members(); len(list) != 2 || list[1] != 1 {
			t.Errorf("%v: members %v with weights %v", o, list, best.weights)
		}
		if math.IsNaN(best.value) || best.calibration == nil {
			t.Errorf("%v: %+v", o, best)
		}
	}
}

// TestFewRows: without enough rows for a calibration the best member is chosen by its scores.
func TestFewRows(t *testing.T) {
	truth, rows, scores := scored(rand.New(rand.NewPCG(8, 9)), 20, 6, 2)
	h, err := newHeld(truth, rows, 1000, &index.Auto{Objective: lcif.Accuracy}, scores)
	if err != nil {
		t.Fatal(err)
	}
	best, err := h.choose([][]int{{1}, {0}}, 0)
	if err != nil || best.calibration != nil || len(best.members()) != 1 || best.value < 0.3 {
		t.Errorf("%+v, %v", best, err)
	}
}

// TestRenamed: cuts by label go with their names where a rebuild numbers labels in another way.
func TestRenamed(t *testing.T) {
	c := &labels.Calibration{Cut: 0.5, LabelCuts: []float32{0.1, 0.2}}
	of := &tuner{job: &kind.Job{Labels: []string{"a", "b"}}, data: &kind.LabelledRows{Names: []string{"b", "c", "a"}}}
	if got := of.renamed(c).LabelCuts; !slices.Equal(got, []float32{0.2, 0.5, 0.1}) {
		t.Errorf("cuts %v", got)
	}
	if of.job.Labels = nil; !slices.Equal(of.renamed(c).LabelCuts, []float32{0.5, 0.5, 0.5}) { // unknown names
		t.Errorf("cuts %v", of.renamed(c).LabelCuts)
	}
}

// Members leave time for learning the best of each kind from all rows.
func TestTimeIsLeftForAllRows(t *testing.T) {
	x := &tuner{start: time.Now(), folds: make([]labels.Fold, 1), opts: index.Auto{Time: 100 * time.Second}}
	for _, k := range []string{"a", "b"} {
		x.trials = append(x.trials, &trial{
			info: index.AutoTrial{Kind: k}, scores: &vector.CSR{}, learning: 20 * time.Second, model: &learnedModel{},
		})
	}
	if left := x.left(); left > 55*time.Second || left < 40*time.Second {
		t.Errorf("%v left", left)
	}
	for _, y := range x.trials {
		y.learning = 200 * time.Second
	}
	if left := x.left(); left < 80*time.Second {
		t.Errorf("%v left, and none of the models can learn from all rows", left)
	}
	if x.trials[0].model = nil; x.left() > 0 {
		t.Errorf("%v left, and a model of an earlier build has to learn from all rows", x.left())
	}
	x.trials[0].model = x.trials[1].model
	if x.folds = make([]labels.Fold, 3); x.left() > 0 {
		t.Errorf("%v left, and all models have to learn from all rows", x.left())
	}
}
