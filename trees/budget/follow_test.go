package budget

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// stream is rows that come and go under a model.
type stream struct {
	t      *testing.T
	x      *vector.CSR
	sets   [][]uint32
	kind   Kind
	params Params
	rng    *rand.Rand
	shift  float64 // of the labels' thresholds
	labels int
	live   []int
	m      *Model
	copies int // rows that get the labels of others in a step
}

// newStream returns a stream without rows.
func newStream(t *testing.T, kind Kind, params Params, seed uint64) *stream {
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: 24}
	return &stream{t: t, x: x, kind: kind, params: params, rng: rand.New(rand.NewPCG(seed, seed))}
}

// draw appends n rows with some of q labels, or one of q classes.
func (s *stream) draw(n, q int) (drawn []int) {
	for range n {
		const m = 24
		var x vector.Sparse
		values := make([]float64, m)
		for j := range m {
			if s.rng.IntN(3) == 0 {
				values[j] = s.rng.NormFloat64()
				x.Index, x.Value = append(x.Index, uint32(j)), append(x.Value, float32(values[j]))
			}
		}
		set, class, most := []uint32{}, 0, -9.0
		for l := range q {
			// A product of two features makes one linear decision too few.
			v := values[l] + values[l+q]*values[l+2*q] + s.shift*values[l+3] + 0.1*s.rng.NormFloat64()
			if v > 0.7+0.1*float64(l) {
				set = append(set, uint32(l))
			}
			if v > most {
				class, most = l, v
			}
		}
		if s.kind == SBT {
			set = []uint32{uint32(class)}
		}
		for _, l := range set {
			s.labels = max(s.labels, int(l)+1)
		}
		drawn = append(drawn, len(s.sets))
		s.x.Append(x)
		s.sets = append(s.sets, set)
	}
	return drawn
}

// only has the features and labels of the given rows alone.
func (s *stream) only(rows []int) (*vector.CSR, *labels.Matrix) {
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: s.x.Cols}
	for _, i := range rows {
		x.Append(s.x.Row(i))
	}
	var sets [][]uint32
	for _, i := range rows {
		sets = append(sets, s.sets[i])
	}
	y, err := labels.FromSets(sets, s.labels)
	if err != nil {
		s.t.Fatal(err)
	}
	return x, y
}

// learn learns a model from the given rows alone.
func (s *stream) learn(rows []int, params Params) *Model {
	s.t.Helper()
	x, y := s.only(rows)
	class := make([]uint32, len(rows))
	for i, r := range rows {
		if s.kind == SBT {
			class[i] = s.sets[r][0]
		}
	}
	m, err := Train(s.t.Context(), s.kind, Job{X: x, Sets: y, Class: class, Classes: max(2, s.labels), Params: params})
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// step deletes and adds rows, and lets the model follow; false if it had to be
// retrained.
func (s *stream) step(gone, come, q int) (*Followed, bool) {
	s.t.Helper()
	covered := len(s.sets)
	for _, i := range s.rng.Perm(len(s.live))[:gone] {
		s.live[i] = -1
	}
	s.live = slices.DeleteFunc(s.live, func(row int) bool { return row < 0 })
	relabelled := map[int]bool{}
	for range s.copies {
		from, to := s.live[s.rng.IntN(len(s.live))], s.live[s.rng.IntN(len(s.live))]
		s.sets[to], relabelled[to] = s.sets[from], true
	}
	s.live = append(s.live, s.draw(come, q)...)
	var out []*Followed
	before := clone(s.t, s.m)
	for _, workers := range []int{1, 3} {
		job := s.job()
		job.Workers = workers
		f, err := Follow(s.t.Context(), s.m, job, Since{
			Covered: covered, Relabelled: func(row int) bool { return relabelled[row] }, Share: 0.2,
		})
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, f)
	}
	if !reflect.DeepEqual(out[0], out[1]) {
		s.t.Error("the result depends on the number of workers")
	}
	if !reflect.DeepEqual(before, clone(s.t, s.m)) {
		s.t.Error("the model followed was changed")
	}
	f := out[0]
	if f.Model == nil {
		s.labels = 0
		for _, row := range s.live {
			if set := s.sets[row]; len(set) > 0 {
				s.labels = max(s.labels, int(set[len(set)-1])+1)
			}
		}
		s.m = s.learn(s.live, s.params)
		return f, false
	}
	s.m = f.Model
	return f, true
}

// job has the live rows among all that there ever were.
func (s *stream) job() Job {
	all := make([]int, len(s.sets))
	class := make([]uint32, len(s.sets))
	for i := range all {
		all[i] = i
		if s.kind == SBT {
			class[i] = s.sets[i][0]
		}
	}
	x, y := s.only(all)
	return Job{X: x, Sets: y, Class: class, Classes: s.labels, Rows: s.live, Params: s.params}
}

// path is where a row goes: by the decisions of a SBT, by its labels otherwise.
func (s *stream) path(m *Model, p *Predictor, tree, row int, at func(ref int32)) {
	if m.Kind == PT {
		leaf := -1
		for i := range m.Leaves() {
			if slices.Equal(m.Set(i), s.sets[row]) {
				leaf = i
			}
		}
		if leaf < 0 {
			s.t.Fatalf("no leaf has the labels %v", s.sets[row])
		}
		for ref, ok := int32(^leaf), true; ok; {
			at(ref)
			ok = false
			for i := range m.Nodes() {
				if m.Left[i] == ref || m.Right[i] == ref {
					ref, ok = int32(i), true
					break
				}
			}
		}
		return
	}
	p.load(s.x.Row(row))
	for ref := m.Roots[tree]; ; {
		at(ref)
		if ref < 0 {
			return
		}
		left := false
		if m.Kind == AT {
			left = slices.Contains(s.sets[row], m.NodeLabel[ref])
		} else {
			left, _ = p.decide(int(ref))
		}
		if left {
			ref = m.Left[ref]
		} else {
			ref = m.Right[ref]
		}
	}
}

// checkCounts compares all that a model says of its rows with the rows.
func (s *stream) checkCounts() {
	s.t.Helper()
	m := s.m
	for _, err := range []error{m.Validate(), m.CheckCounts(len(s.live))} {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	nodes, leaves, positive := make([]uint32, m.Nodes()), make([]uint32, m.Leaves()), make([]uint32, m.Leaves())
	at := make([][]int, m.Nodes()) // rows
	p := NewPredictor(NewIndex(m))
	for tree := range m.Roots {
		for _, row := range s.live {
			s.path(m, p, tree, row, func(ref int32) {
				if ref >= 0 {
					nodes[ref]++
					at[ref] = append(at[ref], row)
					return
				}
				leaves[^ref]++
				if m.Kind == SBT && int(s.sets[row][0]) == max(tree, 3-m.Labels) {
					positive[^ref]++
				}
				if m.Kind != SBT && s.params.MinPositive < 2 && !slices.Equal(m.Set(int(^ref)), s.sets[row]) {
					s.t.Fatalf("row with labels %v is in the leaf of %v", s.sets[row], m.Set(int(^ref)))
				}
			})
		}
	}
	if !slices.Equal(nodes, m.NodeRows) || !slices.Equal(leaves, m.LeafRows) {
		s.t.Fatalf("rows of nodes %v and leaves %v, not %v and %v", m.NodeRows, m.LeafRows, nodes, leaves)
	}
	if m.Kind == SBT && !slices.Equal(positive, m.LeafPositive) {
		s.t.Fatalf("%v rows are positive, not %v", m.LeafPositive, positive)
	}
	if m.Kind == AT && s.params.MinPositive < 2 {
		s.checkLabelSets(at)
	}
}

// checkLabelSets compares one-sets and working sets of an AT with definitions 9
// and 10 for the rows of each node.
func (s *stream) checkLabelSets(at [][]int) {
	above := make([][]uint32, s.m.Nodes()) // decided as present, or recorded
	for i, rows := range at {
		var ones []uint32
		working := 0
		for l := range uint32(s.labels) {
			n := 0
			for _, row := range rows {
				if slices.Contains(s.sets[row], l) {
					n++
				}
			}
			switch {
			case n == len(rows) && !slices.Contains(above[i], l):
				ones = append(ones, l)
			case n > 0 && n < len(rows):
				working++
			}
		}
		if !slices.Equal(ones, s.m.Ones(i)) || working != int(s.m.NodeWorking[i]) {
			s.t.Fatalf("node %d: one-set %v, %d labels open, not %v and %d", i, s.m.Ones(i), s.m.NodeWorking[i], ones, working)
		}
		known := slices.Concat(above[i], ones)
		if r := s.m.Right[i]; r >= 0 {
			above[r] = known
		}
		if l := s.m.Left[i]; l >= 0 {
			above[l] = append(slices.Clone(known), s.m.NodeLabel[i])
		}
	}
}

// decisionOf is all that a node decides by, as a key.
func decisionOf(m *Model, i int) string {
	var features []uint32
	lo, hi := m.NodePtr[i], m.NodePtr[i+1]
	for _, f := range m.NodeFeature[lo:hi] {
		features = append(features, m.Features[f])
	}
	label := uint32(0)
	if m.Kind == AT {
		label = m.NodeLabel[i]
	}
	return fmt.Sprint(label, features, m.Weight[int(lo)*m.Voters:int(hi)*m.Voters], m.Offset[i*m.Voters:(i+1)*m.Voters])
}

// checkParts compares a model with the one that it comes from: nodes that stand
// for changed rows have the decisions they had, and every subtree that is new is
// what learning it from its present rows gives. It counts these.
func (s *stream) checkParts(before *Model) (subtrees int) {
	s.t.Helper()
	had := map[string]int{}
	for i := range before.Nodes() {
		had[decisionOf(before, i)]++
	}
	m := s.m
	fresh := make([]bool, m.Nodes())
	for i := range m.Nodes() {
		key := decisionOf(m, i)
		if fresh[i] = had[key] == 0; fresh[i] && m.NodeChanged[i] > 0 {
			s.t.Fatalf("node %d was not learned now, and is not what it was", i)
		}
	}
	type place struct {
		ref   int32
		tree  int
		depth int
		seed  uint64
		above bool // relearned above
	}
	var stack []place
	for t, r := range m.Roots {
		seed := s.params.Seed
		if s.kind == SBT && m.Labels > 2 {
			seed = mix(seed, uint64(t))
		}
		stack = append(stack, place{r, t, 0, seed, false})
	}
	p := NewPredictor(NewIndex(m))
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if v.ref < 0 {
			continue
		}
		if fresh[v.ref] && !v.above {
			subtrees++
			s.compare(v.ref, v.tree, v.depth, v.seed, p)
		}
		above := v.above || fresh[v.ref]
		stack = append(stack, place{m.Right[v.ref], v.tree, v.depth + 1, mix(v.seed, 1), above}, place{m.Left[v.ref], v.tree, v.depth + 1, mix(v.seed, 2), above})
	}
	return subtrees
}

// compare learns the subtree at a node from its rows and compares decisions.
func (s *stream) compare(root int32, tree, depth int, seed uint64, p *Predictor) {
	s.t.Helper()
	var rows []int
	for _, row := range s.live {
		s.path(s.m, p, tree, row, func(ref int32) {
			if ref == root {
				rows = append(rows, row)
			}
		})
	}
	params := s.params
	var want *Model
	if s.kind == SBT {
		params.Seed = seed
		params.MaxDepth = 32 - depth
		x, _ := s.only(rows)
		class := make([]uint32, len(rows)) // against the rest
		for i, r := range rows {
			if int(s.sets[r][0]) == max(tree, 3-s.m.Labels) {
				class[i] = 1
			}
		}
		var err error
		want, err = Train(s.t.Context(), SBT, Job{X: x, Class: class, Classes: 2, Params: params})
		if err != nil {
			s.t.Fatal(err)
		}
	} else {
		want = s.learn(rows, params)
	}
	for i := range want.Nodes() {
		if got := decisionOf(s.m, int(root)+i); got != decisionOf(want, i) {
			s.t.Fatalf("%s: node %d of a subtree of %d rows decides otherwise than one learned from these rows", s.kind, i, len(rows))
		}
	}
}

// TestFollow lets trees of all kinds follow rows that come and go, and rows that
// get other labels; labels and classes among them are new. After every step what a tree says of its rows
// is what they say, decisions are what they were, or what learning them from the
// present rows gives; all at any number of workers.
func TestFollow(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    Kind
		classes int
		params  Params
	}{
		{"two classes", SBT, 2, Params{BAC: BACParams{Budget: 3, C: 1}, Folds: 3, Seed: 3, NoPrune: true}},
		{"four classes", SBT, 4, Params{BAC: BACParams{Budget: 3, C: 1}, Folds: 2, Seed: 4}},
		{"powerset", PT, 4, Params{BAC: BACParams{Budget: 4}}},
		{"annotation", AT, 4, Params{BAC: BACParams{Budget: 4}}},
		{"frequent", AT, 4, Params{BAC: BACParams{Budget: 4}, MinPositive: 3}},
		{"two classes, relabelled", SBT, 2, Params{BAC: BACParams{Budget: 3, C: 1}, Folds: 3, Seed: 3, NoPrune: true}},
		{"four classes, relabelled", SBT, 4, Params{BAC: BACParams{Budget: 3, C: 1}, Folds: 2, Seed: 4}},
		{"powerset, relabelled", PT, 4, Params{BAC: BACParams{Budget: 4}}},
		{"annotation, relabelled", AT, 4, Params{BAC: BACParams{Budget: 4}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStream(t, c.kind, c.params, 7)
			if strings.HasSuffix(c.name, "relabelled") {
				s.copies = 6
			}
			s.live = s.draw(300, c.classes)
			s.m = s.learn(s.live, s.params)
			s.checkCounts()
			followed, parts := 0, 0
			for step := range 12 {
				before, q := s.m, c.classes
				if step > 2 && c.classes > 2 {
					q++ // a label or class that was not there
				}
				f, ok := s.step(s.rng.IntN(9), s.rng.IntN(9), q)
				s.checkCounts()
				if !ok {
					continue
				}
				followed++
				n := 0
				if s.params.MinPositive < 2 { // else labels too rare above are left out
					n = s.checkParts(before)
				}
				if n > f.Subtrees {
					t.Errorf("%d subtrees are new, %d were learned", n, f.Subtrees)
				}
				parts += n
			}
			if followed < 6 || parts == 0 && s.params.MinPositive < 2 {
				t.Errorf("%d steps of 12 followed, %d subtrees learned", followed, parts)
			}
		})
	}
}

// TestFollowNothing: without a change the model stays as it is.
func TestFollowNothing(t *testing.T) {
	for _, kind := range []Kind{SBT, PT, AT} {
		s := newStream(t, kind, Params{BAC: BACParams{Budget: 4}}, 5)
		s.live = s.draw(200, 4)
		m := s.learn(s.live, s.params)
		f, err := Follow(t.Context(), m, s.job(), Since{Covered: len(s.live), Share: 0.2})
		must(t, err)
		if f.Model == nil || !reflect.DeepEqual(clone(t, f.Model), clone(t, m)) || f.Subtrees != 0 || f.Rows != 0 {
			t.Errorf("%s: %+v", kind, f)
		}
	}
}

// TestFollowErrors: a model that cannot have counted the rows, and a job that
// does not fit the model, are refused.
func TestFollowErrors(t *testing.T) {
	for _, kind := range []Kind{SBT, PT, AT} {
		s := newStream(t, kind, Params{BAC: BACParams{Budget: 4}}, 5)
		s.live = s.draw(200, 4)
		m := s.learn(s.live[:150], s.params)
		for _, c := range []struct {
			name    string
			change  func(*Job)
			covered int
			share   float64
			want    error
		}{
			{"more rows covered than were counted", func(*Job) {}, 200, 0.2, ErrInvalid},
			{"no share", func(*Job) {}, 150, 0, ErrParams},
			{"fewer features", func(j *Job) { j.X = &vector.CSR{Ptr: make([]uint64, 201), Cols: 1} }, 150, 0.2, ErrParams},
			{"no labels", func(j *Job) { j.Sets, j.Class = nil, nil }, 150, 0.2, ErrInput},
			{"a row beyond the last", func(j *Job) { j.Rows = []int{200} }, 150, 0.2, ErrInput},
			{"parameters", func(j *Job) { j.Params.BAC.Budget = 0 }, 150, 0.2, ErrParams},
		} {
			job := s.job()
			c.change(&job)
			if _, err := Follow(t.Context(), m, job, Since{Covered: c.covered, Share: c.share}); !errors.Is(err, c.want) {
				t.Errorf("%s, %s: %v, want %v", kind, c.name, err, c.want)
			}
		}
	}
}

// TestFollowDrift: while labels come to mean something else, trees that follow
// predict nearly as well as such as are relearned from the rows of the time:
// the share of right label sets (classes) is at most a twelfth below.
func TestFollowDrift(t *testing.T) {
	for _, kind := range []Kind{SBT, PT, AT} {
		s := newStream(t, kind, Params{BAC: BACParams{Budget: 6, C: 1}, Folds: 3}, 9)
		s.live = s.draw(600, 3)
		s.m = s.learn(s.live, s.params)
		followed := 0
		for range 5 {
			s.shift += 0.2
			if _, ok := s.step(11, 11, 3); ok {
				followed++
			}
		}
		test := s.draw(600, 3)
		right := func(m *Model) float64 {
			p, n := NewPredictor(NewIndex(m)), 0
			for _, i := range test {
				if kind == SBT {
					class, _ := p.Class(s.x.Row(i))
					if class == int(s.sets[i][0]) {
						n++
					}
				} else if slices.Equal(p.Set(s.x.Row(i)), s.sets[i]) {
					n++
				}
			}
			return float64(n) / float64(len(test))
		}
		got, want := right(s.m), right(s.learn(s.live, s.params))
		t.Logf("%s: %d steps followed, %.3f right, relearned %.3f", kind, followed, got, want)
		if got < want*11/12 || followed != 5 {
			t.Errorf("%s: %d steps followed, %.3f right, relearned %.3f", kind, followed, got, want)
		}
	}
}
