package labels

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/vector"
)

// minMax is the least-squares function that never falls, by its formula: the largest, over beginnings up to i,
// of the least, over ends from i, of the means of the outcomes between them.
func minMax(list []outcome, i int) float64 {
	best := math.Inf(-1)
	for from := range i + 1 {
		least := math.Inf(1)
		n, hits := 0., 0.
		for to := from; to < len(list); to++ {
			n, hits = n+list[to].n, hits+list[to].hits
			if to >= i {
				least = min(least, hits/n)
			}
		}
		best = max(best, least)
	}
	return best
}

func TestIsotonicIsLeastSquares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		var list []outcome
		for i := range n {
			hits := rapid.IntRange(0, 3).Draw(t, "hits")
			list = append(list, outcome{float32(i) / 64, 3, float64(hits)})
		}
		c := fitIsotonic(slices.Clone(list))
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		// A pool's curve has its value at its mean score.
		for i := 0; i < n; {
			end, want := i, minMax(list, i)
			score := 0.
			for ; end < n && math.Abs(minMax(list, end)-want) < 1e-12; end++ {
				score += float64(list[end].score)
			}
			if got := c.At(float32(score / float64(end-i))); math.Abs(float64(got)-want) > 1e-5 {
				t.Fatalf("outcomes %d to %d: %g, want %g (%v)", i, end, got, want, list)
			}
			i = end
		}
	})
}

func TestIsotonicPoolsEqualScores(t *testing.T) {
	c := fitIsotonic([]outcome{{0.5, 1, 1}, {0.5, 1, 0}, {0.2, 1, 0}, {0.5, 2, 1}})
	if len(c.X) != 2 || c.At(0.2) != 0 || c.At(0.5) != 0.5 || math.Abs(float64(c.At(0.35))-0.25) > 1e-6 || c.At(0) != 0 || c.At(9) != 0.5 {
		t.Fatalf("%+v", c)
	}
	var many []outcome
	for i := range 5000 {
		many = append(many, outcome{float32(i), float64(1 + i%7), float64(1+i%7) * float64(i) / 5000})
	}
	c = fitIsotonic(many)
	if err := c.Validate(); err != nil || len(c.X) > maxPoints {
		t.Fatal(len(c.X), err)
	}
	for i := range 5000 {
		if got := c.At(float32(i)); math.Abs(float64(got)-float64(i)/5000) > 0.04 {
			t.Fatalf("%d: %g", i, got)
		}
	}
}

// drawn draws rows: the probabilities that a model gives, and labels that they have with them.
func drawn(r *rand.Rand, rows, n int, truth func(p float64) float64) (*Matrix, *vector.CSR) {
	prob := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: n}
	sets := make([][]uint32, rows)
	for i := range rows {
		var x vector.Sparse
		for l := range n {
			p := math.Pow(r.Float64(), 3)
			x.Index, x.Value = append(x.Index, uint32(l)), append(x.Value, float32(p))
			if r.Float64() < truth(p) {
				sets[i] = append(sets[i], uint32(l))
			}
		}
		prob.Append(x)
	}
	prob.Cols = n
	m, err := FromSets(sets, n)
	if err != nil {
		panic(err)
	}
	return m, prob
}

func TestRecallCutsAreTheLargest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, n := rapid.IntRange(1, 60).Draw(t, "rows"), rapid.IntRange(1, 6).Draw(t, "labels")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		truth, prob := drawn(r, rows, n, func(p float64) float64 { return p })
		for i := range prob.Value { // equal ones, and some that are missing
			prob.Value[i] = float32(math.Floor(float64(prob.Value[i])*8) / 8)
		}
		cuts, err := FitRecallCuts(truth, prob)
		if err != nil || cuts.Validate() != nil {
			t.Fatal(err, cuts)
		}
		for i := range 99 {
			recall, want := float64(i+1)/100, float32(0)
			for step := 8; step > 0 && want == 0; step-- {
				cut := float32(step) / 8
				loss, m := 0., 0.
				for row := range truth.Rows() {
					set := truth.Row(row)
					if len(set) == 0 {
						continue
					}
					m++
					for _, l := range set {
						if prob.Row(row).Value[l] < cut {
							loss += 1 / float64(len(set))
						}
					}
				}
				if m > 0 && m/(m+1)*(loss/m)+1/(m+1) <= 1-recall+1e-12 {
					want = cut
				}
			}
			got, err := cuts.At(recall)
			if got != want || (err != nil) != (want == 0) || err != nil && !errors.Is(err, ErrRecall) {
				t.Fatalf("recall %g: %g, %v, want %g", recall, got, err, want)
			}
		}
	})
}

// The mean over many samples of what the sets find is at least what is asked, also if the probabilities of the
// model are wrong.
func TestRecallCutsKeepTheirPromise(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	wrong := func(p float64) float64 { return 0.1 + 0.5*math.Sqrt(p) }
	const trials, held, tests = 300, 80, 40
	for _, recall := range []float64{0.5, 0.8, 0.9} {
		sum, square := 0., 0.
		for range trials {
			truth, prob := drawn(r, held, 8, wrong)
			cuts, err := FitRecallCuts(truth, prob)
			if err != nil {
				t.Fatal(err)
			}
			cut, err := cuts.At(recall)
			if err != nil {
				t.Fatal(err)
			}
			truth, prob = drawn(r, tests, 8, wrong)
			found, n := 0., 0.
			for i := range tests {
				set := truth.Row(i)
				if len(set) == 0 {
					continue
				}
				n++
				for _, l := range set {
					if prob.Row(i).Value[l] >= cut {
						found += 1 / float64(len(set))
					}
				}
			}
			sum, square = sum+found/n, square+found/n*found/n
		}
		mean := sum / trials
		if e := math.Sqrt((square/trials - mean*mean) / trials); mean < recall-1.645*e || mean > recall+0.03 {
			t.Errorf("recall %g: %g ± %g", recall, mean, e)
		}
	}
}

func TestCalibrateFindsTheProbabilities(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	curve := func(p float64) float64 { return 0.8 * p * p }
	truth, scores := drawn(r, 4000, 10, curve)
	rows := []int{3, 3, 30, 30, 100, 100, 500, 500, 500, 500}
	c, err := Calibrate(truth, scores, rows, CalibrateOptions{})
	if err != nil || c.Validate() != nil {
		t.Fatal(err)
	}
	for _, score := range []float32{0.1, 0.3, 0.5, 0.7, 0.9} {
		for _, n := range rows {
			if got := float64(c.Probability(score, n)); math.Abs(got-curve(float64(score))) > 0.06 {
				t.Errorf("%g: %g, want %g", score, got, curve(float64(score)))
			}
		}
	}
	truth, scores = drawn(r, 2000, 10, curve)
	var top, before Reliability
	eachBest(truth, c.Probabilities(scores, rows), top.Add)
	eachBest(truth, scores, before.Add)
	if top.Error() > 0.045 || before.Error() < 0.1 {
		t.Errorf("error %g, without calibration %g", top.Error(), before.Error())
	}
	// The cut is the best of all.
	best, _ := microF1(t, truth, c.Probabilities(scores, rows), c.Thresholds())
	for step := 1; step < 20; step++ {
		f, _ := microF1(t, truth, c.Probabilities(scores, rows), &Thresholds{Single: float64(step) / 20, KeepTop: true})
		if f > best+0.01 {
			t.Errorf("cut %v: %g, at %g: %g", c.Cut, best, float64(step)/20, f)
		}
	}
}

func microF1(t *testing.T, truth *Matrix, prob *vector.CSR, cut *Thresholds) (float64, *Report) {
	t.Helper()
	p, err := cut.Predict(prob)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Evaluate(truth, p)
	if err != nil {
		t.Fatal(err)
	}
	return r.Zero.Micro.F1, r
}

// TestCutsByLabel: the labels of a row that reach their cuts have the largest expected F1 of each label, computed
// for each number of pairs; labels of few rows gain from that.
func TestCutsByLabel(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	truth, scores := drawn(r, 2000, 8, func(p float64) float64 { return p * p })
	rows := []int{3, 3, 30, 30, 100, 100, 500, 500}
	o := CalibrateOptions{Measure: func(r *Report) float64 { return r.Zero.Macro.F1 }, ByLabel: true}
	c, err := Calibrate(truth, scores, rows, o)
	if err != nil || len(c.LabelCuts) != 8 || c.CutOf(8) != c.Cut || !c.KeepTop {
		t.Fatalf("%+v, %v", c, err)
	}
	prob := c.Probabilities(scores, rows)
	one, several := c.Thresholds(), c.Thresholds()
	one.PerLabel = nil
	_, a := microF1(t, truth, prob, one)
	_, b := microF1(t, truth, prob, several)
	if b.Zero.Macro.F1 < a.Zero.Macro.F1-0.005 {
		t.Errorf("%g with a cut for each label, %g with one", b.Zero.Macro.F1, a.Zero.Macro.F1)
	}
	for l := range 8 {
		var p []float64
		all := 0.
		for i := range prob.Rows() {
			x := float64(scoreOf(prob.Row(i), uint32(l)))
			p, all = append(p, x), all+x
		}
		slices.Sort(p)
		slices.Reverse(p)
		best, reached, sum, n := 0., 0., 0., 0.
		for _, x := range p {
			sum, n = sum+x, n+1
			f := 2 * sum / (n + all)
			if best = max(best, f); x >= float64(c.CutOf(uint32(l))) {
				reached = f
			}
		}
		if reached < best-0.002 {
			t.Errorf("label %d: an expected F1 of %g, want %g", l, reached, best)
		}
	}
}

// TestOrders: labels are ordered by probability or, with a number of training rows, by their expected part in
// propensity-scored precision.
func TestOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &Calibration{Propensity: rapid.SampledFrom([]int{0, 2, 1000, 1 << 60}).Draw(t, "rows")}
		rows := rapid.SliceOfN(rapid.IntRange(0, 900), 1, 9).Draw(t, "rows of labels")
		prob := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: len(rows)}
		var x vector.Sparse
		for l := range rows {
			x.Index, x.Value = append(x.Index, uint32(l)), append(x.Value, rapid.Float32Range(0, 1).Draw(t, "p"))
		}
		prob.Append(x)
		got, weights := c.Orders(prob, rows), InversePropensities(rows, c.Propensity)
		for l, p := range x.Value {
			want := float64(p)
			if c.Propensity > 0 {
				want *= weights[l]
			}
			least := math.SmallestNonzeroFloat32 // the step of numbers near zero
			if math.Abs(float64(got.Value[l])-want) > 1e-6*want+least || got.Value[l] != c.Order(p, rows[l]) {
				t.Fatalf("label %d of %d rows: %g, want %g", l, rows[l], got.Value[l], want)
			}
		}
		if !slices.Equal(prob.Value, x.Value) {
			t.Fatal("the probabilities changed")
		}
	})
}

// Of cuts that select equal sets the middle one is taken: what is between right and wrong labels of the
// held-out rows is as near to either.
func TestCutInTheMiddle(t *testing.T) {
	sets := make([][]uint32, 100)
	scores := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: 3}
	for i := range sets {
		right := uint32(i % 3)
		sets[i] = []uint32{right}
		x := vector.Sparse{Index: []uint32{0, 1, 2}, Value: []float32{0.1, 0.1, 0.1}}
		x.Value[right] = 0.9
		scores.Append(x)
	}
	truth, err := FromSets(sets, 3)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Calibrate(truth, scores, []int{33, 33, 33}, CalibrateOptions{})
	if err != nil || c.Cut != 0.5 {
		t.Errorf("cut at %g, %v", c.Cut, err)
	}
}

func TestCalibrateFewRows(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	truth, scores := drawn(r, LeastCalibrationRows-1, 3, func(p float64) float64 { return 1 })
	if c, err := Calibrate(truth, scores, []int{1, 1, 1}, CalibrateOptions{}); c != nil || err != nil {
		t.Fatal(c, err)
	}
	truth, scores = drawn(r, 200, 3, func(p float64) float64 { return 0 })
	if c, err := Calibrate(truth, scores, []int{1, 1, 1}, CalibrateOptions{}); c != nil || err != nil {
		t.Fatal(c, err)
	}
}

func TestReliability(t *testing.T) {
	var r Reliability
	for range 4 {
		r.Add(0.95, true)
	}
	for i := range 4 {
		r.Add(0.45, i == 0)
	}
	if want := (4*0.05 + 4*0.2) / 8; math.Abs(r.Error()-want) > 1e-6 || r.Validate() != nil {
		t.Fatalf("%g, want %g", r.Error(), want)
	}
	if new(Reliability).Error() != 0 {
		t.Fatal("no labels")
	}
}

func TestHostileCalibrations(t *testing.T) {
	nan := float32(math.NaN())
	valid := func() *Calibration {
		return &Calibration{Curves: [Buckets]Isotonic{{X: []float32{0, 1}, Y: []float32{0, 1}}}, Recall: RecallCuts{0.5, 0.1}}
	}
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	for i, forge := range []func(c *Calibration){
		func(c *Calibration) { c.Curves[0].X = c.Curves[0].X[:1] },
		func(c *Calibration) { c.Curves[0].X[1] = 0 },
		func(c *Calibration) { c.Curves[0].X[0] = nan },
		func(c *Calibration) { c.Curves[0].X[1] = float32(math.Inf(1)) },
		func(c *Calibration) { c.Curves[0].Y[0] = 2 },
		func(c *Calibration) { c.Curves[0].Y[1] = nan },
		func(c *Calibration) { c.Curves[0].Y = []float32{0.5, 0.4} },
		func(c *Calibration) { c.Curves[3] = Isotonic{make([]float32, 33), make([]float32, 33)} },
		func(c *Calibration) { c.Cut = nan },
		func(c *Calibration) { c.Cut = 1.5 },
		func(c *Calibration) { c.LabelCuts = []float32{0, nan} },
		func(c *Calibration) { c.LabelCuts = []float32{-0.5} },
		func(c *Calibration) { c.Rows = -1 },
		func(c *Calibration) { c.Propensity = -1 },
		func(c *Calibration) { c.Top[1].N = -1 },
		func(c *Calibration) { c.Top[1].Right = 1 },
		func(c *Calibration) { c.Recall[1] = 0.6 },
		func(c *Calibration) { c.Recall[0] = nan },
		func(c *Calibration) { c.Recall[1] = 0 },
		func(c *Calibration) { c.Recall = make(RecallCuts, 100) },
	} {
		c := valid()
		forge(c)
		if err := c.Validate(); !errors.Is(err, ErrInput) {
			t.Errorf("case %d: %v", i, err)
		}
	}
}

// TestChosenCuts: the cuts are about as good on the held-out rows as any single one, also where each row has
// one label and several are likely, for which cuts by expected F1 are too low.
func TestChosenCuts(t *testing.T) {
	const n, count = 600, 5
	rng := rand.New(rand.NewPCG(1, 2))
	scores := &vector.CSR{Ptr: []uint64{0}, Cols: count}
	var sets [][]uint32
	for range n {
		right := uint32(rng.IntN(count))
		sets = append(sets, []uint32{right})
		for l := range uint32(count) {
			v := 0.1 * rng.Float32()
			switch l {
			case right:
				v += 0.75
			case (right + 1) % count:
				v += 0.7
			}
			scores.Index, scores.Value = append(scores.Index, l), append(scores.Value, v)
		}
		scores.Ptr = append(scores.Ptr, uint64(len(scores.Index)))
	}
	truth, err := FromSets(sets, count)
	if err != nil {
		t.Fatal(err)
	}
	rows := slices.Repeat([]int{n / count}, count)
	o := CalibrateOptions{Measure: func(r *Report) float64 { return r.Zero.Macro.F1 }, ByLabel: true}
	c, err := Calibrate(truth, scores, rows, o)
	if err != nil {
		t.Fatal(err)
	}
	prob := c.Probabilities(scores, rows)
	value := func(x *Thresholds) float64 {
		predicted, err := x.Predict(prob)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Evaluate(truth, predicted)
		if err != nil {
			t.Fatal(err)
		}
		return r.Zero.Macro.F1
	}
	chosen := value(c.Thresholds())
	for step := range 100 {
		x := &Thresholds{KeepTop: true, Single: float64(step) / 100}
		if v := value(x); v > chosen+0.01 {
			t.Fatalf("macro F1 %.3f, by a cut of %.2f %.3f (%v)", chosen, x.Single, v, c.LabelCuts)
		}
	}
}
