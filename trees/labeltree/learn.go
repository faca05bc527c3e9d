package labeltree

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// node is a node while the tree is learned.
type node struct {
	labels   []uint32   // below it
	children [][]uint32 // the labels of each child: one below a leaf
	hard     []int32    // rows that the levels above lead to it
}

// learner is a run of Train.
type learner struct {
	*Job
	rows   [][]int32 // of each label, ascending
	levels [][]node
	m      *Model
	done   int
	total  int
	number []int32 // of the features in a node, -1 for others
	place  []int32 // of the rows in a node; others have those of nodes before
}

// Train learns a model. Labels that no row has are not in it. sized, unless it is nil, is told the number of
// bytes that the model will have at most, before small weights are dropped and up to the features of hard
// negatives. The time is about that of labels·C^(1/levels) classifiers over all rows.
//
// Errors: ErrParams, ErrInput, the context's.
func Train(ctx context.Context, j Job, sized func(bytes int64)) (*Model, error) {
	j.Params = j.Params.Filled(j.Sets.Labels())
	if err := j.check(); err != nil {
		return nil, err
	}
	l := &learner{Job: &j, number: make([]int32, j.X.Cols), place: make([]int32, j.X.Rows())}
	for i := range l.number {
		l.number[i] = -1
	}
	l.m = &Model{
		Cols: j.X.Cols, Labels: j.Sets.Labels(),
		ClassPtr: []uint32{0}, FeaturePtr: []uint32{0}, WeightPtr: []uint32{0},
	}
	l.plan()
	if sized != nil {
		sized(l.bound())
	}
	for i := range l.levels {
		for n := range l.levels[i] {
			if err := l.learn(ctx, &l.levels[i][n]); err != nil {
				return nil, err
			}
		}
		if i+1 < len(l.levels) {
			if err := l.lead(ctx, l.levels[i+1]); err != nil {
				return nil, err
			}
		}
	}
	return l.m, nil
}

// plan divides the labels.
func (l *learner) plan() {
	l.rows = make([][]int32, l.Sets.Labels())
	for _, r := range l.Rows {
		for _, label := range l.Sets.Row(r) {
			l.rows[label] = append(l.rows[label], int32(r))
		}
	}
	var all []uint32
	for label, rows := range l.rows {
		if len(rows) > 0 {
			all = append(all, uint32(label))
		}
	}
	flat := min(l.Params.Flat, maxChildren)
	depth := 1
	if len(all) > flat {
		for depth = 2; math.Pow(100, float64(depth)) < float64(len(all)); {
			depth++
		}
	}
	size := int(math.Ceil(math.Pow(float64(len(all)), 1/float64(depth))))
	l.levels = [][]node{{{labels: all}}}
	var c *clusterer
	if depth > 1 {
		c = newClusterer(l.Job, l.rows)
	}
	for range depth - 1 {
		var below []node
		level := l.levels[len(l.levels)-1]
		for i := range level {
			n := &level[i]
			n.children = c.groups(slices.Clone(n.labels), min(size, len(n.labels)))
			for _, group := range n.children {
				below = append(below, node{labels: group})
			}
		}
		l.m.Inner += len(level)
		l.total += len(below)
		l.levels = append(l.levels, below)
	}
	leaves := l.levels[depth-1]
	for i := range leaves {
		for _, label := range leaves[i].labels {
			leaves[i].children = append(leaves[i].children, []uint32{label})
		}
	}
	l.total += len(all)
}

// rowsBelow returns the rows with any of the labels, ascending.
func (l *learner) rowsBelow(labels []uint32) (out []int32) {
	for _, label := range labels {
		out = append(out, l.rows[label]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// bound returns the number of bytes of a model with all weights.
func (l *learner) bound() (bytes int64) {
	for _, level := range l.levels {
		for i := range level {
			n := &level[i]
			features := l.features(l.rowsOf(n))
			bytes += int64(len(features)) * int64(4*len(n.children)+8)
			l.forget(features)
		}
	}
	return bytes
}

// rowsOf returns the rows that a node learns from: all at the root.
func (l *learner) rowsOf(n *node) []int32 {
	if n == &l.levels[0][0] || len(l.levels) == 1 {
		out := make([]int32, len(l.Rows))
		for i, r := range l.Rows {
			out[i] = int32(r)
		}
		return out
	}
	rows := append(l.rowsBelow(n.labels), n.hard...)
	slices.Sort(rows)
	return slices.Compact(rows)
}

// features returns the features of rows, ascending, and numbers them.
func (l *learner) features(rows []int32) (list []uint32) {
	for _, r := range rows {
		for _, f := range l.X.Row(int(r)).Index {
			if l.number[f] < 0 {
				l.number[f] = 0
				list = append(list, f)
			}
		}
	}
	slices.Sort(list)
	for i, f := range list {
		l.number[f] = int32(i)
	}
	return list
}

// forget takes the numbers of features back.
func (l *learner) forget(features []uint32) {
	for _, f := range features {
		l.number[f] = -1
	}
}

// classifier has the weights of a child that are kept.
type classifier struct {
	offset  float32
	feature []uint32 // by its number in the node
	weight  []float32
}

// learn learns the classifiers of a node and appends them to the model.
func (l *learner) learn(ctx context.Context, n *node) error {
	rows := l.rowsOf(n)
	features := l.features(rows)
	defer l.forget(features)
	local := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for _, r := range rows {
		x := l.X.Row(int(r))
		for i, f := range x.Index {
			local.Index, local.Value = append(local.Index, uint32(l.number[f])), append(local.Value, x.Value[i])
		}
		local.Ptr = append(local.Ptr, uint64(len(local.Index)))
	}
	local.Cols = len(features)
	p, end := newProblem(local, l.Params.C), tolerance
	if len(l.levels) > 1 {
		end = treeTolerance
	}
	for i, r := range rows {
		l.place[r] = int32(i)
	}
	found := make([]classifier, len(n.children))
	before := l.done
	work := par.Work{N: len(found), Workers: l.Workers}
	if l.Progress != nil {
		work.Progress = func(done, _ int) { l.Progress(before+done, l.total) }
	}
	err := par.Items(ctx, work, func() func(c int) error {
		s, positive := &solver{}, make([]bool, len(rows))
		return func(c int) error {
			mark := func(is bool) {
				for _, label := range n.children[c] {
					for _, r := range l.rows[label] {
						positive[l.place[r]] = is
					}
				}
			}
			mark(true)
			s.solve(ctx, p, positive, end, l.Params.Seed^uint64(len(l.m.Target)+c))
			mark(false)
			found[c] = l.kept(s.w)
			return nil
		}
	})
	l.done += len(found)
	if err != nil {
		return err
	}
	return l.append(n, features, found)
}

// kept returns the weights that are not dropped.
func (l *learner) kept(w []float32) classifier {
	least := float32(max(l.Params.Prune, 0))
	c := classifier{offset: w[len(w)-1]}
	for f, x := range w[:len(w)-1] {
		if x > least || x < -least {
			c.feature, c.weight = append(c.feature, uint32(f)), append(c.weight, x)
		}
	}
	return c
}

// append appends a node to the model.
func (l *learner) append(n *node, features []uint32, found []classifier) error {
	m := l.m
	child := uint32(1 + len(m.Target)) // the number of a child that is a node
	count := make([]uint32, len(features)+1)
	for c, x := range found {
		m.Offset = append(m.Offset, x.offset)
		if m.Nodes() < m.Inner {
			m.Target = append(m.Target, child+uint32(c))
		} else {
			m.Target = append(m.Target, n.children[c][0])
		}
		for _, f := range x.feature {
			count[f]++
		}
	}
	base := uint64(len(m.Weight))
	total := base
	for f, k := range count {
		count[f] = uint32(total)
		if k > 0 {
			total += uint64(k)
			m.Feature, m.WeightPtr = append(m.Feature, features[f]), append(m.WeightPtr, uint32(total))
		}
	}
	if total > math.MaxUint32 {
		return fmt.Errorf("%w: %d weights, want at most %d: drop larger ones",
			ErrInput, total, uint32(math.MaxUint32))
	}
	m.Weight = append(m.Weight, make([]uint32, total-base)...)
	for c, x := range found {
		for i, f := range x.feature {
			m.Weight[count[f]] = pack(c, x.weight[i])
			count[f]++
		}
	}
	m.ClassPtr = append(m.ClassPtr, uint32(len(m.Target)))
	m.FeaturePtr = append(m.FeaturePtr, uint32(len(m.Feature)))
	return nil
}

// lead finds the nodes of a level that the levels above lead each row to.
func (l *learner) lead(ctx context.Context, level []node) error {
	first := l.m.Nodes()
	led := make([][beam]int32, len(l.Rows))
	work := par.Work{N: len(l.Rows), Grain: 64, Workers: l.Workers}
	err := par.Items(ctx, work, func() func(i int) error {
		p := NewPredictor(l.m)
		return func(i int) error {
			for k := range led[i] {
				led[i][k] = -1
			}
			for k, b := range p.follow(l.X.Row(l.Rows[i]), first) {
				led[i][k] = int32(int(b.at) - first)
			}
			return nil
		}
	})
	for i, list := range led {
		for _, n := range list {
			if n >= 0 {
				level[n].hard = append(level[n].hard, int32(l.Rows[i]))
			}
		}
	}
	return err
}
