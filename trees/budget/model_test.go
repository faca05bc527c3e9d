package budget

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// trained is one model of each kind over the same space of 8 features.
func trained(t testing.TB) (*vector.CSR, *labels.Matrix, []*Model) {
	t.Helper()
	x, y := drawLabels(120, 8, 6, 1)
	params := Params{BAC: BACParams{Budget: 2, Rounds: 3}}
	pt, err := Train(t.Context(), PT, Job{X: x, Sets: y, Params: params, Workers: 1})
	must(t, err)
	params.Threshold = -0.2
	at, err := Train(t.Context(), AT, Job{X: x, Sets: y, Params: params, Workers: 1})
	must(t, err)
	params.Threshold = 0
	class := make([]int8, x.Rows())
	three := make([]uint32, x.Rows())
	for i := range class {
		class[i] = -1
		if slices.Contains(y.Row(i), 0) != slices.Contains(y.Row(i), 1) {
			class[i] = 1
			three[i] = 1
		}
		if slices.Contains(y.Row(i), 2) {
			three[i] = 2
		}
	}
	params.NoPrune = true
	sbt, err := Train(t.Context(), SBT, Job{X: x, Class: classesOf(class), Classes: 2, Params: params, Workers: 1})
	must(t, err)
	multi, err := Train(t.Context(), SBT, Job{X: x, Class: three, Classes: 3, Params: params, Workers: 1})
	must(t, err)
	return x, y, []*Model{pt, at, sbt, multi}
}

// slowMargins evaluates a node's classifiers from the definition.
func slowMargins(m *Model, node int, x vector.Sparse) []float64 {
	sums := make([]float64, m.Voters)
	for v := range sums {
		sums[v] = float64(m.Offset[node*m.Voters+v]) - float64(m.Threshold)
		for e := m.NodePtr[node]; e < m.NodePtr[node+1]; e++ {
			if i := slices.Index(x.Index, m.Features[m.NodeFeature[e]]); i >= 0 {
				value := float32(1)
				if x.Value != nil {
					value = x.Value[i]
				}
				sums[v] += float64(m.Weight[int(e)*m.Voters+v]) * float64(value)
			}
		}
	}
	return sums
}

// Predictions follow the definition of the model, by the direct table and by
// the search of large feature spaces alike, for rows with unknown features and
// without values too.
func TestPredictorFollowsDefinition(t *testing.T) {
	_, _, models := trained(t)
	for _, m := range models {
		searched := &Index{model: m}
		for _, index := range []*Index{NewIndex(m), searched} {
			p := NewPredictor(index)
			rapid.Check(t, func(t *rapid.T) {
				var x vector.Sparse
				for f := range uint32(12) {
					if rapid.Bool().Draw(t, "has") {
						x.Index = append(x.Index, f)
						x.Value = append(x.Value, rapid.Float32Range(-3, 3).Draw(t, "value"))
					}
				}
				if rapid.Bool().Draw(t, "binary") {
					x.Value = nil
				}
				tree := rapid.IntRange(0, len(m.Roots)-1).Draw(t, "tree")
				ref, steps, close := m.Roots[tree], 0, false
				for ; ref >= 0; steps++ {
					votes, sum := 0, 0.0
					for _, s := range slowMargins(m, int(ref), x) {
						close = close || math.Abs(s) < 1e-9
						sum += s
						if s > 0 {
							votes++
						}
					}
					if voteLeft(votes, m.Voters, sum) {
						ref = m.Left[ref]
					} else {
						ref = m.Right[ref]
					}
				}
				if close {
					t.Skip("a margin too small to compare sums of another order")
				}
				leaf, n := p.Leaf(x, tree)
				if leaf != int(^ref) || n != steps {
					t.Fatalf("leaf %d after %d, want %d after %d", leaf, n, ^ref, steps)
				}
				e := p.Explain(x, tree)
				if e.Leaf != leaf || len(e.Path) != n || e.Rows != int(m.LeafRows[leaf]) {
					t.Fatalf("%+v", e)
				}
				for _, d := range e.Path {
					sum := d.Offset
					for _, c := range d.Contributions {
						sum += c.Margin
					}
					if math.Abs(sum-d.Margin) > 1e-5*(1+math.Abs(sum)) {
						t.Fatalf("contributions add up to %v, margin %v", sum, d.Margin)
					}
				}
				if m.Kind != SBT && !slices.Equal(e.Set, p.Set(x)) {
					t.Fatalf("explained %v, predicted %v", e.Set, p.Set(x))
				}
			})
		}
	}
}

// Without a cut the chances of all leaves add up to one: a label that all
// leaves have scores 1, and scores follow from the definition, whatever the
// threshold.
func TestScores(t *testing.T) {
	x, y, models := trained(t)
	for _, m := range models[:2] {
		slope := 2.0
		if m.Kind == AT {
			slope, m.Threshold = 4, -0.3
		}
		p := NewPredictor(NewIndex(m))
		for i := range 20 {
			row := x.Row(i)
			want := make([]float64, m.Labels)
			var walk func(ref int32, chance float64)
			walk = func(ref int32, chance float64) {
				if ref < 0 {
					for _, l := range m.Set(int(^ref)) {
						want[l] += chance
					}
					return
				}
				margin := slowMargins(m, int(ref), row)[0] + float64(m.Threshold)
				yes := 1 / (1 + math.Exp(-slope*margin))
				walk(m.Left[ref], chance*yes)
				walk(m.Right[ref], chance*(1-yes))
			}
			walk(m.Roots[0], 1)
			got := p.Scores(row, 0)
			must(t, got.Validate())
			for e, l := range got.Index {
				if math.Abs(float64(got.Value[e])-want[l]) > 1e-5 {
					t.Fatalf("label %d scores %v, want %v", l, got.Value[e], want[l])
				}
				want[l] = 0
			}
			for l, v := range want {
				if v > 1e-9 {
					t.Fatalf("label %d is missing with %v", l, v)
				}
			}
			full := slices.Clone(got.Value)
			index := slices.Clone(got.Index)
			for e, l := range p.Scores(row, 0.01).Index {
				if at := slices.Index(index, l); at < 0 || p.scores.Value[e] > full[at]+1e-6 {
					t.Fatalf("cutting raises label %d", l)
				}
			}
		}
		scores := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m.Labels}
		for i := range x.Rows() {
			scores.Append(p.Scores(x.Row(i), 0.001))
		}
		report, err := labels.EvaluateRanking(y, scores, []int{1})
		must(t, err)
		if report.Precision[0] < 0.3 {
			t.Errorf("%s: precision@1 %v on its training rows", m.Kind, report.Precision[0])
		}
	}
}

func TestPredictAllocatesNothing(t *testing.T) {
	x, _, models := trained(t)
	for _, m := range models {
		p := NewPredictor(NewIndex(m))
		i := 0
		predict := func() {
			row := x.Row(i % x.Rows())
			i++
			if m.Kind == SBT {
				p.Class(row)
			} else {
				p.Set(row)
				p.Scores(row, 0)
			}
		}
		for range x.Rows() {
			predict()
		}
		if n := testing.AllocsPerRun(200, predict); n != 0 {
			t.Errorf("%s: %v allocations a prediction", m.Kind, n)
		}
	}
}

func TestPredictSets(t *testing.T) {
	x, _, models := trained(t)
	for _, m := range models[:2] {
		all, err := PredictSets(t.Context(), m, x, 3)
		must(t, err)
		p := NewPredictor(NewIndex(m))
		for i := range x.Rows() {
			if !slices.Equal(all.Row(i), p.Set(x.Row(i))) {
				t.Fatalf("row %d differs", i)
			}
		}
	}
	if _, err := PredictSets(t.Context(), models[2], x, 1); !errors.Is(err, ErrParams) {
		t.Errorf("SBT: %v", err)
	}
}

// clone copies a model deeply.
func clone(t testing.TB, m *Model) *Model {
	t.Helper()
	b, err := json.Marshal(m)
	must(t, err)
	c := &Model{}
	must(t, json.Unmarshal(b, c))
	return c
}

func TestValidate(t *testing.T) {
	_, _, models := trained(t)
	pt, at, sbt, multi := models[0], models[1], models[2], models[3]
	for _, m := range models {
		must(t, m.Validate())
		must(t, clone(t, m).Validate())
	}
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		m      *Model
		damage func(*Model)
	}{
		"kind":             {pt, func(m *Model) { m.Kind = "x" }},
		"no voters":        {sbt, func(m *Model) { m.Voters = 0 }},
		"many voters":      {sbt, func(m *Model) { m.Voters = MaxVoters + 1 }},
		"voters of PT":     {pt, func(m *Model) { m.Voters = 2 }},
		"threshold":        {pt, func(m *Model) { m.Threshold = nan }},
		"no labels":        {pt, func(m *Model) { m.Labels = 0 }},
		"too few features": {pt, func(m *Model) { m.Cols = 1 }},
		"no root":          {pt, func(m *Model) { m.Roots = nil }},
		"a root too few":   {multi, func(m *Model) { m.Roots = m.Roots[1:] }},
		"loop":             {pt, func(m *Model) { m.Left[1] = 0 }},
		"self":             {pt, func(m *Model) { m.Left[0] = 0 }},
		"twice":            {pt, func(m *Model) { m.Left[0] = m.Right[0] }},
		"node beyond":      {pt, func(m *Model) { m.Right[0] = int32(m.Nodes()) }},
		"leaf beyond":      {pt, func(m *Model) { m.Right[0] = math.MinInt32 }},
		"right missing":    {pt, func(m *Model) { m.Right = m.Right[1:] }},
		"feature order":    {at, func(m *Model) { m.Features[1] = m.Features[0] }},
		"node feature":     {at, func(m *Model) { m.NodeFeature[0] = uint32(len(m.Features)) }},
		"node offsets":     {at, func(m *Model) { m.NodePtr[1] = math.MaxUint32 }},
		"weights missing":  {sbt, func(m *Model) { m.Weight = m.Weight[1:] }},
		"weight":           {sbt, func(m *Model) { m.Weight[0] = nan }},
		"offset":           {sbt, func(m *Model) { m.Offset[0] = float32(math.Inf(1)) }},
		"label":            {at, func(m *Model) { m.NodeLabel[0] = uint32(m.Labels) }},
		"label missing":    {at, func(m *Model) { m.NodeLabel = m.NodeLabel[1:] }},
		"ones":             {at, func(m *Model) { m.OnePtr = m.OnePtr[1:] }},
		"ones of PT":       {pt, func(m *Model) { m.OnePtr = []uint32{0} }},
		"sets":             {pt, func(m *Model) { m.SetLabel = m.SetLabel[1:] }},
		"set label":        {pt, func(m *Model) { m.SetLabel[0] = uint32(m.Labels) }},
		"sets of SBT":      {sbt, func(m *Model) { m.SetPtr = []uint32{0} }},
		"class":            {sbt, func(m *Model) { m.LeafClass[0] = 0 }},
		"positive rows":    {sbt, func(m *Model) { m.LeafPositive[0] = m.LeafRows[0] + 1 }},
		"leaf without tree": {sbt, func(m *Model) {
			m.LeafRows, m.LeafPositive, m.LeafClass = append(m.LeafRows, 1), append(m.LeafPositive, 1), append(m.LeafClass, 1)
		}},
	} {
		m := clone(t, c.m)
		c.damage(m)
		if err := m.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A model that Validate accepts can be evaluated, explained and drawn, whatever
// is in its arrays.
func FuzzModel(f *testing.F) {
	_, _, models := trained(f)
	for _, m := range models {
		b, err := json.Marshal(m)
		must(f, err)
		f.Add(b, uint16(0), uint32(0))
		f.Add(b, uint16(7), uint32(1<<31))
	}
	f.Fuzz(func(t *testing.T, data []byte, place uint16, value uint32) {
		m := &Model{}
		if json.Unmarshal(data, m) != nil {
			t.Skip()
		}
		arrays := []*[]uint32{&m.NodePtr, &m.NodeFeature, &m.Features, &m.SetPtr, &m.SetLabel, &m.OnePtr, &m.NodeLabel}
		if a := *arrays[int(place)%len(arrays)]; len(a) > 0 {
			a[int(place)/len(arrays)%len(a)] = value
		}
		if len(m.Left) > 0 {
			m.Left[int(place)%len(m.Left)] ^= int32(value >> 24)
		}
		if m.Cols > 1<<20 || m.Labels > 1<<20 || m.Validate() != nil {
			t.Skip()
		}
		p := NewPredictor(NewIndex(m))
		x := vector.Sparse{Index: []uint32{0, 3, 5, 1 << 30}, Value: []float32{1, -2, 3, 4}}
		for tree := range m.Roots {
			p.Leaf(x, tree)
			p.Explain(x, tree)
		}
		if m.Kind == SBT {
			p.Class(x)
		} else {
			p.Set(x)
			p.Scores(x, 0.01)
		}
		m.Stats()
		var b bytes.Buffer
		picture := m.Picture(PictureOptions{Nodes: int(place)})
		if picture.WriteText(&b) != nil || picture.WriteDOT(&b) != nil {
			t.Fatal("a buffer cannot fail")
		}
	})
}

func TestChoose(t *testing.T) {
	x, y := blobs(120, 30, 3, 0.5, 1)
	grid := Grid{Budgets: []int{1, 3}, Costs: []float64{0.1, 1}, Folds: 3}
	last := 0
	params, trials, err := Choose(t.Context(), SBT, Job{X: x, Class: classesOf(y), Classes: 2, Params: Params{Seed: 1}, Progress: func(done, total int) {
		if done != last+1 || total < done || total > 4 {
			t.Errorf("progress %d of %d", done, total)
		}
		last = done
	}}, grid)
	must(t, err)
	if len(trials) > 4 || params.BAC.Budget != 3 {
		t.Errorf("chose %+v of %+v", params.BAC, trials)
	}
	for _, tr := range trials {
		if tr.Score <= 0.5 || tr.Score > 1 {
			t.Errorf("score %v", tr.Score)
		}
	}
	stop := make(chan struct{})
	stopped := Job{X: x, Class: classesOf(y), Classes: 2, Params: Params{Seed: 1}, Stop: stop, Progress: func(done, _ int) {
		if done == 2 {
			close(stop)
		}
	}}
	some, measured, err := Choose(t.Context(), SBT, stopped, grid)
	if err != nil || !slices.Equal(measured, trials[:2]) || some.BAC.C != 0.1 {
		t.Errorf("stopped after two settings: %+v of %+v, %v", some.BAC, measured, err)
	}
	one, measured, err := Choose(t.Context(), SBT, Job{X: x, Class: classesOf(y), Classes: 2, Stop: stop}, grid)
	if err != nil || len(measured) != 1 || one.BAC.C != 0.1 {
		t.Errorf("stopped before the first setting: %+v of %+v, %v", one.BAC, measured, err)
	}
	lx, ly := drawLabels(150, 8, 6, 1)
	grid.Thresholds, grid.Positives = []float32{-0.5, 0, 5}, []int{1, 100}
	for kind, most := range map[Kind]int{AT: 24, PT: 4} {
		params, trials, err := Choose(t.Context(), kind, Job{X: lx, Sets: ly}, grid)
		must(t, err)
		// No label has a hundred rows in any fold's node, so nothing would be predicted.
		if len(trials) > most || params.Threshold == 5 || params.MinPositive > 1 {
			t.Errorf("%s chose %+v of %+v", kind, params, trials)
		}
	}
	if _, _, err := Choose(t.Context(), SBT, Job{X: lx, Sets: ly}, grid); !errors.Is(err, ErrInput) {
		t.Errorf("SBT without classes: %v", err)
	}
	if _, _, err := Choose(t.Context(), SBT, Job{X: x, Class: classesOf(y), Classes: 2}, Grid{}); !errors.Is(err, ErrParams) {
		t.Errorf("empty grid: %v", err)
	}
	grid.Folds = 200
	if _, _, err := Choose(t.Context(), SBT, Job{X: x, Class: classesOf(y), Classes: 2}, grid); !errors.Is(err, ErrInput) {
		t.Errorf("too many folds: %v", err)
	}
}

// Nodes with far more features than the row has entries decide as the others.
func TestWideNodes(t *testing.T) {
	x, y := blobs(60, 300, 20, 0.9, 3)
	for _, folds := range []int{1, 3} {
		m, err := Train(t.Context(), SBT, Job{X: x, Class: classesOf(y), Classes: 2, Params: Params{BAC: BACParams{Budget: 300}, Folds: folds, MaxDepth: 2}})
		must(t, err)
		if n := int(m.NodePtr[1]); n < 10*searchFrom {
			t.Fatalf("only %d features", n)
		}
		p := NewPredictor(NewIndex(m))
		rapid.Check(t, func(t *rapid.T) {
			var row vector.Sparse
			for _, f := range rapid.SliceOfNDistinct(rapid.Uint32Range(0, 310), 0, 9, rapid.ID[uint32]).Draw(t, "features") {
				row.Index = append(row.Index, f)
				row.Value = append(row.Value, rapid.Float32Range(-3, 3).Draw(t, "value"))
			}
			slices.Sort(row.Index)
			p.load(row)
			left, margin := p.decide(0)
			votes, sum := 0, 0.0
			for _, s := range slowMargins(m, 0, row) {
				sum += s
				if s > 0 {
					votes++
				}
			}
			if math.Abs(margin*float64(folds)-sum) > 1e-9*(1+math.Abs(sum)) || left != voteLeft(votes, folds, sum) {
				t.Fatalf("%v, margin %v; from the definition %v of %d votes", left, margin*float64(folds), sum, votes)
			}
		})
	}
}
