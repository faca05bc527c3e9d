package forest

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// maxDepth and maxTrees are the limits of a forest; the arrays of a larger one could
// not be addressed.
const (
	maxDepth = 24
	maxTrees = 4096
)

// resolve fills defaults and checks the parameters.
func (p Params) resolve(n, dim int, lab *labels.Neighbors) (Params, error) {
	switch p.Kind {
	case RP, KD, KDChrono, PCATree, RF:
	default:
		return p, fmt.Errorf("%w: unknown kind %q", ErrParams, p.Kind)
	}
	if p.Trees < 1 || p.Trees > maxTrees {
		return p, fmt.Errorf("%w: %d trees, want 1 to %d", ErrParams, p.Trees, maxTrees)
	}
	if p.Depth < 1 || p.Depth > maxDepth {
		return p, fmt.Errorf("%w: depth %d, want 1 to %d", ErrParams, p.Depth, maxDepth)
	}
	if !p.Members {
		p.Natural = true
	}
	if lab != nil && (p.LabelsK <= 0 || p.LabelsK > lab.K) {
		p.LabelsK = lab.K
	}
	root := int(math.Round(math.Sqrt(float64(dim))))
	if !(p.Density > 0 && p.Density <= 1) {
		p.Density = 1 / math.Sqrt(float64(dim))
	}
	if p.Candidates <= 0 {
		p.Candidates = 5
		if p.Kind == RF {
			p.Candidates = root
		}
	}
	p.Candidates = min(max(1, p.Candidates), dim)
	if p.Subsample <= 0 {
		p.Subsample = 101
		if p.Kind == RF {
			p.Subsample = 100
		}
	}
	p.Subsample = min(max(2, p.Subsample), n)
	return p, nil
}

// Learn grows a forest over the training points. lab has the labels of every point:
// row numbers below corpusN. train is in the coordinates the trees split on: raw or
// rotated. workers < 1 means all processors. The forest does not depend on workers,
// since every tree draws from its own random stream. progress counts finished trees;
// it may be nil, and its calls do not overlap.
//
// Cost: O(trees · n · depth) reads for the unsupervised kinds; rf also counts
// the labels of Subsample points for every node and candidate coordinate.
// Errors: ErrParams, also for coordinates that are NaN or infinite and for a
// point that has a label twice, and the context's error.
func Learn(
	ctx context.Context, train labels.Rows, corpusN int, lab *labels.Neighbors, p Params,
	workers int, progress func(done, total int),
) (*Forest, error) {
	if train == nil || train.Len() == 0 || train.Dim() < 1 {
		return nil, fmt.Errorf("%w: no training points", ErrParams)
	}
	p, err := p.resolve(train.Len(), train.Dim(), lab)
	if err != nil {
		return nil, err
	}
	if p.Natural || p.Kind == RF {
		if lab == nil || lab.N != train.Len() || lab.K < 1 || len(lab.IDs) != lab.N*lab.K {
			return nil, fmt.Errorf("%w: labels do not belong to the training points", ErrParams)
		}
		if err := checkLabels(lab, corpusN); err != nil {
			return nil, err
		}
	}
	if p.Members && p.Corpus == nil && train.Len() > corpusN {
		return nil, fmt.Errorf("%w: %d training points are not a corpus of %d rows",
			ErrParams, train.Len(), corpusN)
	}
	if p.Corpus != nil && (p.Corpus.Dim() != train.Dim() || p.Corpus.Len() > corpusN) {
		return nil, fmt.Errorf("%w: the corpus has another shape than the training points", ErrParams)
	}
	for _, rows := range []labels.Rows{train, p.Corpus} {
		if err := checkFinite(ctx, rows); err != nil {
			return nil, err
		}
	}
	f := &Forest{Params: p, Dim: train.Dim(), CorpusN: corpusN, Points: train.Len()}
	slots := p.Trees << p.Depth
	f.Nodes = make([]Node, slots)
	f.Coord = CoordAxis
	switch p.Kind {
	case RP:
		f.Coord = CoordProjected
		f.drawProjections()
	case PCATree:
		f.Coord = CoordDirections
		f.DirWidth = max(1, int(math.Round(p.Density*float64(f.Dim))))
		f.DirIdx = make([]uint32, slots*f.DirWidth)
		f.DirVal = make([]float32, slots*f.DirWidth)
	}
	if err := f.grow(ctx, train, lab, workers, progress); err != nil {
		return nil, fmt.Errorf("forest: learn: %w", err)
	}
	f.Corpus = nil
	return f, nil
}

// checkLabels rejects labels that are not corpus rows, and points that have a label
// twice: equation 4 counts points, so a label's votes in a leaf must not exceed the
// leaf's points.
func checkLabels(lab *labels.Neighbors, corpusN int) error {
	last := make([]uint32, corpusN) // the last point with the label, from 1
	for i, id := range lab.IDs {
		point := i / lab.K
		if int(id) >= corpusN {
			return fmt.Errorf("%w: label %d of point %d names row %d of %d", ErrParams, i%lab.K, point, id, corpusN)
		}
		if last[id] == uint32(point)+1 {
			return fmt.Errorf("%w: point %d has label %d twice", ErrParams, point, id)
		}
		last[id] = uint32(point) + 1
	}
	return nil
}

// checkEvery is the number of rows between checks of the context.
const checkEvery = 1024

// checkFinite rejects coordinates that are NaN or infinite.
func checkFinite(ctx context.Context, rows labels.Rows) error {
	if rows == nil {
		return nil
	}
	buf := make([]float32, rows.Dim())
	for i := range rows.Len() {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return fmt.Errorf("forest: learn: %w", ctx.Err())
		}
		x := rows.Row(i, buf)
		if j := vector.IsFinite(x); j >= 0 {
			return fmt.Errorf("%w: coordinate %d of row %d is %v", ErrParams, j, i, x[j])
		}
	}
	return nil
}

// partition holds a grown tree's training points in leaf order: leaf i has
// points[ends[i-1]:ends[i]].
type partition struct {
	points []uint32
	ends   []int
}

func (p *partition) leaf(i int) []uint32 {
	lo := 0
	if i > 0 {
		lo = p.ends[i-1]
	}
	return p.points[lo:p.ends[i]]
}

// grow splits all trees, then fills all leaves.
func (f *Forest) grow(
	ctx context.Context, train labels.Rows, lab *labels.Neighbors,
	workers int, progress func(done, total int),
) error {
	p := f.Params
	parts := make([]partition, p.Trees)
	// The splits and the leaves each count as half of a tree.
	halves := func(before int) func(done, total int) {
		return func(done, _ int) {
			if done += before; progress != nil && done%2 == 0 {
				progress(done/2, p.Trees)
			}
		}
	}
	work := par.Work{N: p.Trees, Workers: workers, Progress: halves(0)}
	err := par.Items(ctx, work, func() func(t int) error {
		g := newGrower(f, train, lab)
		return func(t int) error {
			parts[t] = g.tree(ctx, t)
			return nil
		}
	})
	if err != nil {
		return err
	}
	leaves := make([]leafWriter, p.Trees)
	members := make([]leafWriter, p.Trees)
	work.Progress = halves(p.Trees)
	err = par.Items(ctx, work, func() func(t int) error {
		v := newVoteCounter(f.CorpusN)
		return func(t int) error {
			if p.Natural {
				f.labelTables(ctx, v, lab, &parts[t], &leaves[t])
			}
			if p.Members {
				f.memberLists(ctx, t, &parts[t], &members[t])
			}
			return nil
		}
	})
	if err != nil {
		return err
	}
	if p.Natural {
		if f.Leaves, f.LeafDir, err = merge(leaves); err != nil {
			return err
		}
	}
	if p.Members {
		f.Members, f.MemberDir, err = merge(members)
	}
	return err
}

// labelTables counts the labels of every leaf of a tree (equation 4). Like
// memberLists it stops early, without the remaining leaves, when ctx ends.
func (f *Forest) labelTables(
	ctx context.Context, v *voteCounter, lab *labels.Neighbors, part *partition, w *leafWriter,
) {
	var ids, counts []uint32
	for leaf := range part.ends {
		if ctx.Err() != nil {
			return
		}
		points := part.leaf(leaf)
		for _, i := range points {
			v.add(lab.Row(int(i))[:f.LabelsK])
		}
		ids, counts = v.drain(ids[:0], counts[:0])
		w.addTable(uint32(len(points)), ids, counts)
	}
}

// memberLists writes the corpus rows of every leaf: the training points themselves,
// or the rows of the separate corpus, which it routes down the tree.
func (f *Forest) memberLists(ctx context.Context, t int, part *partition, w *leafWriter) {
	if f.Corpus == nil {
		for leaf := range part.ends {
			rows := slices.Clone(part.leaf(leaf))
			slices.Sort(rows)
			w.addMembers(rows)
		}
		return
	}
	lists := make([][]uint32, 1<<f.Depth)
	x := make([]float32, f.Dim)
	for i := range f.Corpus.Len() {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return
		}
		leaf := f.routeOne(t, f.Corpus.Row(i, x))
		lists[leaf] = append(lists[leaf], uint32(i))
	}
	for _, rows := range lists {
		w.addMembers(rows)
	}
}
