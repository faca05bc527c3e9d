package labeltree

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/optimize"
	"pgregory.net/rapid"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// drawn draws rows of unit length whose labels depend on their features: each label has a feature of its own, and
// labels of a group share one.
func drawn(r *rand.Rand, rows, classes, features int) (*vector.CSR, *labels.Matrix) {
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	sets := make([][]uint32, rows)
	for i := range rows {
		at := map[uint32]float64{}
		for range 1 + r.IntN(3) {
			l := r.IntN(classes)
			sets[i] = append(sets[i], uint32(l))
			at[uint32(l%features)] += 1 + r.Float64()
			at[uint32((l/10)%features)] += r.Float64()
		}
		for range 4 {
			at[uint32(r.IntN(features))] += r.Float64()
		}
		var row vector.Sparse
		square := 0.
		for f := range features {
			if v := at[uint32(f)]; v != 0 {
				row.Index, row.Value = append(row.Index, uint32(f)), append(row.Value, float32(v))
				square += v * v
			}
		}
		for e := range row.Value {
			row.Value[e] /= float32(math.Sqrt(square))
		}
		x.Append(row)
	}
	x.Cols = features
	m, err := labels.FromSets(sets, classes)
	if err != nil {
		panic(err)
	}
	return x, m
}

func allRows(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func job(x *vector.CSR, sets *labels.Matrix, p Params) Job {
	return Job{X: x, Sets: sets, Rows: allRows(x.Rows()), Params: p}
}

func train(t testing.TB, j Job) *Model {
	t.Helper()
	m, err := Train(context.Background(), j, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

// objective is the primal problem, as in the package's documentation.
func objective(x *vector.CSR, positive []bool, cost float64, w []float64) (sum float64) {
	for _, v := range w {
		sum += v * v / 2
	}
	for i, is := range positive {
		row, margin, y := x.Row(i), w[len(w)-1], -1.0
		for e, f := range row.Index {
			margin += w[f] * float64(row.Value[e])
		}
		if is {
			y = 1
		}
		loss := max(0, 1-y*margin)
		sum += cost * loss * loss
	}
	return sum
}

// The primal objective at the weights is within a thousandth of the minimum that a quasi-Newton method finds.
func TestSolverFindsTheMinimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		rows, cost := rapid.IntRange(1, 120).Draw(t, "rows"), rapid.SampledFrom([]float64{0.1, 1, 10}).Draw(t, "cost")
		x, sets := drawn(r, rows, 4, 12)
		positive := make([]bool, rows)
		for _, i := range sets.Column(0) {
			positive[i] = true
		}
		var s solver
		s.solve(t.Context(), newProblem(x, cost), positive, 1e-4, 1)
		got := make([]float64, len(s.w))
		for i, v := range s.w {
			got[i] = float64(v)
		}
		f := func(w []float64) float64 { return objective(x, positive, cost, w) }
		gradient := func(g, w []float64) {
			copy(g, w)
			for i, is := range positive {
				row, margin, y := x.Row(i), w[len(w)-1], -1.0
				for e, f := range row.Index {
					margin += w[f] * float64(row.Value[e])
				}
				if is {
					y = 1
				}
				loss := max(0, 1-y*margin)
				for e, f := range row.Index {
					g[f] -= 2 * cost * y * loss * float64(row.Value[e])
				}
				g[len(w)-1] -= 2 * cost * y * loss
			}
		}
		best, err := optimize.Minimize(optimize.Problem{Func: f, Grad: gradient}, make([]float64, len(got)),
			&optimize.Settings{GradientThreshold: 1e-7, MajorIterations: 10_000}, &optimize.LBFGS{})
		if best == nil {
			t.Fatal(err)
		}
		if f(got) > best.F*(1+1e-3)+1e-9 {
			t.Fatalf("objective %g, minimum %g", f(got), best.F)
		}
	})
}

// weights returns the weights of a model by node, child and feature.
func weights(m *Model) map[[3]int]float64 {
	out := map[[3]int]float64{}
	for n := range m.Nodes() {
		for e := m.FeaturePtr[n]; e < m.FeaturePtr[n+1]; e++ {
			for _, w := range m.Weight[m.WeightPtr[e]:m.WeightPtr[e+1]] {
				out[[3]int{n, int(w >> 16), int(m.Feature[e])}] += float64(weightOf(w))
			}
		}
	}
	return out
}

// naive returns the scores of all labels, by the definition.
func naive(m *Model, x vector.Sparse) map[uint32]float64 {
	w, out := weights(m), map[uint32]float64{}
	var visit func(node int, score float64)
	visit = func(node int, score float64) {
		for c := int(m.ClassPtr[node]); c < int(m.ClassPtr[node+1]); c++ {
			margin := float64(m.Offset[c])
			for e, f := range x.Index {
				margin += float64(x.Value[e]) * w[[3]int{node, c - int(m.ClassPtr[node]), int(f)}]
			}
			s := 1 / (1 + math.Exp(-slope*margin))
			if node < m.Inner {
				visit(int(m.Target[c]), score*math.Pow(s, nodePower))
			} else {
				out[m.Target[c]] = score * s
			}
		}
	}
	visit(0, 1)
	return out
}

// followed returns the labels below the nodes with at least a share of the score of the best node, in a model
// of two levels.
func followed(m *Model, x vector.Sparse, share float64) (out []uint32) {
	var factors []float64
	for _, margin := range NewPredictor(m).score(0, x) {
		factors = append(factors, math.Pow(1/(1+math.Exp(-slope*float64(margin))), nodePower))
	}
	for c, f := range factors {
		if f >= share*slices.Max(factors) {
			first, end := m.children(1 + c)
			out = append(out, m.Target[first:end]...)
		}
	}
	slices.Sort(out)
	return out
}

// A solver stops between two passes.
func TestSolverStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x, _ := drawn(rand.New(rand.NewPCG(1, 2)), 100, 3, 20)
	s := &solver{}
	s.solve(ctx, newProblem(x, 1), make([]bool, 100), 1e-4, 1)
	if slices.ContainsFunc(s.w, func(w float32) bool { return w != 0 }) {
		t.Fatal("weights of a solver whose context had ended")
	}
}

func TestPredictionsByTheirDefinition(t *testing.T) {
	for _, p := range []Params{{}, {Flat: 20}, {Flat: 20, Prune: -1, C: 10}} {
		x, sets := drawn(rand.New(rand.NewPCG(1, 1)), 600, 150, 60)
		m := train(t, job(x, sets, p))
		if levels := levels(m); levels != 1 && p.Flat == 0 || levels != 2 && p.Flat > 0 {
			t.Fatalf("%d levels", levels)
		}
		pr := NewPredictor(m)
		for i := range 50 {
			want := naive(m, x.Row(i))
			var all, some, near vector.Sparse
			pr.leastShare, pr.width = 0, m.Nodes()
			pr.Predict(x.Row(i), &all)
			for e, l := range all.Index {
				if w := want[l]; math.Abs(float64(all.Value[e])-w) > 1e-3*w+1e-9 || e > 0 && l <= all.Index[e-1] {
					t.Fatalf("row %d: label %d has %g, want %g", i, l, all.Value[e], w)
				}
			}
			if len(all.Index) < 100 {
				t.Fatalf("%d of %d labels", len(all.Index), len(want))
			}
			// A narrow beam has some of these labels with the same scores.
			pr.width = 3
			pr.Predict(x.Row(i), &some)
			for e, l := range some.Index {
				at, ok := slices.BinarySearch(all.Index, l)
				if !ok || all.Value[at] != some.Value[e] {
					t.Fatalf("row %d: label %d has %g by a beam of 3", i, l, some.Value[e])
				}
			}
			// Nodes of a small share of the best one are left out.
			pr.leastShare, pr.width = 0.3, m.Nodes()
			pr.Predict(x.Row(i), &near)
			if m.Inner > 0 && !slices.Equal(near.Index, followed(m, x.Row(i), 0.3)) {
				t.Fatalf("row %d: labels %v of near nodes", i, near.Index)
			}
		}
	}
}

func TestLearnsWhatRowsSay(t *testing.T) {
	for _, p := range []Params{{}, {Flat: 20}, {Flat: 20, Seed: 5}} {
		r := rand.New(rand.NewPCG(2, 2))
		x, sets := drawn(r, 4000, 150, 200)
		tests, truth := drawn(r, 500, 150, 200)
		m := train(t, job(x, sets, p))
		pr, right := NewPredictor(m), 0
		for i := range tests.Rows() {
			var s vector.Sparse
			pr.Predict(tests.Row(i), &s)
			if top := labels.Rank(nil, s, 1); len(top) > 0 && slices.Contains(truth.Row(i), top[0].Label) {
				right++
			}
		}
		if right < 475 {
			t.Errorf("%+v: %d of 500 best labels are right", p, right)
		}
	}
}

func TestEqualForAllWorkers(t *testing.T) {
	x, sets := drawn(rand.New(rand.NewPCG(3, 3)), 500, 120, 60)
	j := job(x, sets, Params{Flat: 10, Seed: 9})
	j.Workers = 1
	one := train(t, j)
	for _, n := range []int{2, 7} {
		j.Workers = n
		if m := train(t, j); !reflect.DeepEqual(m, one) {
			t.Fatalf("%d goroutines learn another model", n)
		}
	}
}

// levels returns the number of levels of a model.
func levels(m *Model) int {
	n := 1
	for node := 0; node < m.Inner; node = int(m.Target[m.ClassPtr[node]]) {
		n++
	}
	return n
}

func TestThreeLevels(t *testing.T) {
	x, sets := drawn(rand.New(rand.NewPCG(3, 3)), 3000, 12_000, 300)
	var bound int64
	m, err := Train(context.Background(), job(x, sets, Params{Prune: -1}), func(b int64) { bound = b })
	if err != nil || m.Validate() != nil {
		t.Fatal(err, m.Validate())
	}
	size := len(m.ClassPtr) + len(m.Target) + len(m.Offset) + len(m.FeaturePtr) + len(m.Feature) + len(m.WeightPtr) + len(m.Weight)
	if n := levels(m); n != 3-1 && n != 3 || bound < int64(size) {
		t.Fatalf("%d levels, bound %d of %d elements", n, bound, size)
	}
	var out vector.Sparse
	NewPredictor(m).Predict(x.Row(0), &out)
	if len(out.Index) == 0 {
		t.Fatal("no label")
	}
}

// What users have is learned from: one label on all rows, labels with one row, rows without labels or features, labels
// that no row has, and many labels.
func TestUnusualLabels(t *testing.T) {
	one := &vector.CSR{Ptr: []uint64{0, 1, 2, 2}, Index: []uint32{0, 1}, Value: []float32{1, 1}, Cols: 2}
	for name, sets := range map[string][][]uint32{
		"one label": {{0}, {0}, {0}}, "some without": {{0}, nil, nil}, "all different": {{0}, {1}, {4}},
		"all labels": {{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}},
	} {
		y, err := labels.FromSets(sets, 5)
		if err != nil {
			t.Fatal(err)
		}
		m := train(t, job(one, y, Params{}))
		var s vector.Sparse
		NewPredictor(m).Predict(one.Row(0), &s)
		if top := labels.Rank(nil, s, 1); len(top) != 1 || !slices.Contains(sets[0], top[0].Label) {
			t.Errorf("%s: %v", name, top)
		}
		s = vector.Sparse{}
		NewPredictor(m).Predict(vector.Sparse{Index: []uint32{7}, Value: []float32{1}}, &s)
		for _, l := range s.Index {
			if len(y.Column(int(l))) == 0 {
				t.Errorf("%s: label %d, which no row has", name, l)
			}
		}
	}
	x, y := drawn(rand.New(rand.NewPCG(4, 4)), 2000, 100_000, 50)
	if m := train(t, job(x, y, Params{})); m.Labels != 100_000 || levels(m) != 2 || len(m.Target) > 5000 {
		t.Errorf("%d labels, %d levels, %d classifiers", m.Labels, levels(m), len(m.Target))
	}
}

func TestRefusedJobs(t *testing.T) {
	x, sets := drawn(rand.New(rand.NewPCG(4, 4)), 10, 3, 5)
	none, _ := labels.FromSets(make([][]uint32, 10), 3)
	few, _ := labels.FromSets(make([][]uint32, 9), 3)
	for name, c := range map[string]struct {
		j    Job
		want error
	}{
		"cost":    {job(x, sets, Params{C: -1}), ErrParams},
		"flat":    {job(x, sets, Params{Flat: -1}), ErrParams},
		"prune":   {job(x, sets, Params{Prune: math.NaN()}), ErrParams},
		"none":    {job(x, none, Params{}), ErrInput},
		"no rows": {Job{X: x, Sets: sets}, ErrInput},
		"row":     {Job{X: x, Sets: sets, Rows: []int{10}}, ErrInput},
		"few":     {job(x, few, Params{}), ErrInput},
	} {
		if _, err := Train(context.Background(), c.j, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Train(ctx, job(x, sets, Params{}), nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestExplanationsAddUp(t *testing.T) {
	x, sets := drawn(rand.New(rand.NewPCG(5, 5)), 500, 150, 60)
	m := train(t, job(x, sets, Params{Flat: 20}))
	p := NewPredictor(m)
	for i := range 20 {
		var s vector.Sparse
		p.Predict(x.Row(i), &s)
		for e, l := range s.Index {
			path, score := p.Explain(x.Row(i), l), 0.
			if len(path) != levels(m) || path[0].Node != 0 {
				t.Fatalf("%+v", path)
			}
			for _, step := range path {
				sum := step.Offset
				for _, c := range step.Contributions {
					sum += c.Margin
				}
				if math.Abs(sum-step.Margin) > 1e-9 {
					t.Fatalf("%+v: %g", step, sum)
				}
				power := 1.0
				if step.Node < m.Inner {
					power = nodePower
				}
				score -= power * math.Log1p(math.Exp(-slope*step.Margin))
			}
			if math.Abs(math.Exp(score)-float64(s.Value[e])) > 1e-3*float64(s.Value[e]) {
				t.Fatalf("score %g, explained %g", s.Value[e], math.Exp(score))
			}
		}
	}
	if p.Explain(x.Row(0), 1<<20) != nil {
		t.Fatal("a label that there is not")
	}
}

func TestPredictAllocatesNothing(t *testing.T) {
	x, sets := drawn(rand.New(rand.NewPCG(5, 5)), 500, 150, 60)
	p := NewPredictor(train(t, job(x, sets, Params{Flat: 20})))
	var s vector.Sparse
	if n := testing.AllocsPerRun(100, func() {
		s.Index, s.Value = s.Index[:0], s.Value[:0]
		p.Predict(x.Row(1), &s)
	}); n > 0 {
		t.Fatalf("%g allocations", n)
	}
}

// Arrays of a file may hold anything: what passes Validate is predicted by without a panic.
func TestForgedModels(t *testing.T) {
	x, sets := drawn(rand.New(rand.NewPCG(5, 5)), 300, 120, 40)
	first := train(t, job(x, sets, Params{Flat: 20}))
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		m := *first
		for _, a := range []*[]uint32{&m.ClassPtr, &m.Target, &m.FeaturePtr, &m.Feature, &m.WeightPtr, &m.Weight} {
			*a = slices.Clone(*a)
		}
		m.Offset = slices.Clone(m.Offset)
		arrays := []*[]uint32{&m.ClassPtr, &m.Target, &m.FeaturePtr, &m.Feature, &m.WeightPtr, &m.Weight}
		a := arrays[rapid.IntRange(0, len(arrays)-1).Draw(t, "array")]
		at := rapid.IntRange(0, len(*a)-1).Draw(t, "at")
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			(*a)[at] = rapid.Uint32().Draw(t, "value")
		case 1:
			(*a)[at] += uint32(rapid.IntRange(-2, 2).Draw(t, "by"))
		case 2:
			*a = (*a)[:at]
		case 3:
			m.Inner = rapid.IntRange(-1, 20).Draw(t, "inner")
			m.Offset[0] = float32(math.NaN())
		}
		if err := m.Validate(); err != nil {
			if !errors.Is(err, ErrModel) {
				t.Fatal(err)
			}
			refused++
			return
		}
		var s vector.Sparse
		p := NewPredictor(&m)
		p.Predict(x.Row(0), &s)
		for _, l := range s.Index {
			p.Explain(x.Row(0), l)
		}
	})
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
