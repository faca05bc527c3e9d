package budget

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// A tree follows a change of its rows in three passes. The rows that came and
// went are counted on their paths; nodes of which a share of the rows has
// changed, the highest first, are marked to be learned anew with all that is
// below them; the others keep their decisions, bit for bit, and get exact
// counts. Then the marked parts are learned from the rows that reach them now,
// as the whole tree was, and take the places of the old ones.
//
// No list of the rows of each node is kept: it would be as long as the tree is
// deep for every row, and have to be stored and renumbered with the rows. Rows
// find their way again instead, at the cost of a prediction (SBT) or of their
// labels (PT, AT), which is little beside learning; where leaves are of one
// label set each, only those that came and went, and those that parts are
// learned from.
//
// As in training, the rows of PT and AT go where their labels say; those of SBT
// where the decisions above send them.

// Rows are what a model follows, by number. Its methods are called by one
// goroutine at a time.
type Rows interface {
	// Row is a row's features; valid until the next call.
	Row(i int) (vector.Sparse, error)
	// Set is a row's labels, ascending, which for SBT are its class: one number.
	// It must not change.
	Set(i int) ([]uint32, error)
	// Sets has the labels of the given rows, which ascend, as a matrix of n labels.
	Sets(rows []int, n int) (*labels.Matrix, error)
	// Sums has, for each of the given rows, which ascend, the sum of the weights
	// of its labels modulo 2⁶⁴; there is a weight for every label.
	Sums(rows []int, weight []uint64) ([]uint64, error)
}

// Change says what has happened to the rows since a model's counts were made.
type Change struct {
	Rows Rows
	// Added and Removed are the rows that came and went, which Rows knows all the
	// same; Live all that there are now. All ascend.
	Added, Removed, Live []int
	// Cols and Labels are how many features and labels (or classes) there are now,
	// no fewer than the model has.
	Cols, Labels int
	// Share is the share of a node's rows that may have changed before it is
	// learned anew.
	Share float64
	// Uint32s and Float32s, if not nil, make the memory for n elements of the
	// model's large arrays, for callers that want them in a certain place.
	Uint32s  func(n int) []uint32
	Float32s func(n int) []float32
}

// Followed is a model after a change.
type Followed struct {
	// Model and Drift are new and share nothing with the former ones. Both are nil
	// if the change asks for learning all anew.
	Model *Model
	Drift *Drift
	// Subtrees is how many parts were learned anew, Learned how many rows these
	// were learned from, together; Read is how many rows were read in all.
	Subtrees, Learned, Read int
}

// Follow makes a model follow a change, whose counts are those of the rows
// before it. params must be those that the model was learned with; the result is
// the same for any number of workers. See Rows for what goes where.
//
// A node whose share of rows that came or went since it was learned is above
// Change.Share is learned anew from the rows that reach it, with everything
// below; the root above it means that all is to be learned anew, which Follow
// leaves to the caller. Nodes below that keep their decisions. What they say
// about their rows is kept exact: counts, the classes of leaves (which change
// where the majority does), and for AT one-sets and working sets (definitions
// 9 and 10). A leaf of PT or AT that is no longer of one label set is learned
// anew whatever the share, so that what is new can be answered: for AT that
// comes about by itself, for rows with a label which no other row of a leaf has
// come there too; for PT, a new label set joins the leaf that the tree predicts
// for most of its rows. Where no row is left on one side of a node of PT or AT,
// the other side takes its place. A class that is new to an SBT of three or more
// gets a tree. Classes without a row, a third class, and rows that have not one
// class each, ask for learning all anew.
//
// progress, which may be nil, is told how much of the parts has been learned.
// The trees of PT, and of AT unless MinPositive leaves labels out, know how many
// rows have which label set: the cost is that of the changed rows' paths, of the
// label sets of all leaves once, and of copying the model; if a part is learned
// anew, also of a sum over the labels of all rows, which finds the part's, and of
// learning it. For SBT it is that of the paths of the changed rows, and if a part
// of a tree is learned anew also of all rows' paths through this tree and of
// learning; for AT with MinPositive, of the labels of all rows, and of learning.
//
// The arrays of m and d, which may be views over mapped memory, are read by the
// calling goroutine only.
//
// Errors: ErrParams, ErrInvalid for counts that do not fit the rows, ErrInput for
// rows that cannot be learned from, those of Rows and the context's.
func Follow(ctx context.Context, m *Model, d *Drift, c *Change, params Params, workers int, progress func(done, total int)) (*Followed, error) {
	if m.Kind != SBT {
		params.Folds = 1
	}
	params, err := params.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := d.Validate(m); err != nil {
		return nil, err
	}
	if c.Cols < m.Cols || c.Labels < m.Labels || !(c.Share > 0) {
		return nil, fmt.Errorf("%w: %d features, %d labels, share %v", ErrParams, c.Cols, c.Labels, c.Share)
	}
	if m.Voters != params.Folds {
		return &Followed{}, nil
	}
	f := &following{Change: c, m: m, params: params, workers: workers, progress: progress}
	switch {
	case m.Kind != SBT && m.Roots[0] < 0:
		err = fmt.Errorf("%w: a tree of label sets without decision", ErrInvalid)
	case m.Kind == PT:
		err = f.followPT(ctx, d)
	case m.Kind == AT && params.MinPositive <= 1:
		err = f.followAT(ctx, d)
	default:
		f.m = m.Clone() // other goroutines read it
		f.thaw(d)
		if m.Kind == AT {
			err = f.followRare(ctx)
		} else {
			err = f.followSBT(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("budget: follow: %w", err)
	}
	if f.anew {
		return &Followed{Read: f.read}, nil
	}
	out := &Followed{Model: f.model, Drift: f.drift, Subtrees: f.subtrees, Learned: f.learned, Read: f.read}
	if out.Model == nil {
		out.Model = &Model{Kind: m.Kind, Cols: c.Cols, Labels: f.labels, Voters: m.Voters, Threshold: m.Threshold, KeepTop: m.KeepTop}
		flatten(out.Model, f.roots)
		out.Drift = driftOf(f.roots)
	}
	if err := out.Model.Validate(); err != nil { // it was not valid before
		return nil, fmt.Errorf("budget: follow: %w", err)
	}
	return out, nil
}

// following is the work of Follow.
type following struct {
	*Change
	m        *Model
	params   Params
	workers  int
	progress func(done, total int)

	// The model taken apart, nodes and leaves by number: of SBT, and of AT where
	// leaves are of several label sets.
	nodes, leaves []*grown
	roots         []*grown
	// What came out, where it is laid out already.
	model *Model
	drift *Drift

	labels                  int
	anew                    bool
	subtrees, learned, read int
}

// thaw takes the model apart, so that parts of it can be replaced.
func (f *following) thaw(d *Drift) {
	f.nodes, f.leaves, f.roots = f.m.thaw(d)
	f.labels = f.m.Labels
}

// thaw makes nodes and leaves of the arrays. Without d they have been learned
// from the rows that the arrays count.
func (m *Model) thaw(d *Drift) (nodes, leaves, roots []*grown) {
	if d == nil {
		d = NewDrift(m)
	}
	nodes, leaves = make([]*grown, m.Nodes()), make([]*grown, m.Leaves())
	for i := range leaves {
		g := &grown{rows: int(m.LeafRows[i]), learned: int(d.LeafLearned[i]), changed: int(d.LeafChanged[i])}
		if m.Kind == SBT {
			g.positive, g.class = int(m.LeafPositive[i]), m.LeafClass[i]
		} else {
			g.set = m.Set(i)
		}
		leaves[i] = g
	}
	at := func(ref int32) *grown { return pick(nodes, leaves, ref) }
	for i := m.Nodes() - 1; i >= 0; i-- { // children stand behind
		lo, hi := int(m.NodePtr[i]), int(m.NodePtr[i+1])
		g := &grown{
			left: at(m.Left[i]), right: at(m.Right[i]), rows: int(m.NodeRows[i]), errors: int(m.NodeErrors[i]),
			learned: int(d.NodeLearned[i]), changed: int(d.NodeChanged[i]),
			weights: m.Weight[lo*m.Voters : hi*m.Voters], offsets: m.Offset[i*m.Voters : (i+1)*m.Voters],
			features: make([]uint32, hi-lo),
		}
		for e := range g.features {
			g.features[e] = m.Features[m.NodeFeature[lo+e]]
		}
		if m.Kind == AT {
			g.label, g.ones, g.working = m.NodeLabel[i], m.Ones(i), int(m.NodeWorking[i])
		}
		nodes[i] = g
	}
	for _, r := range m.Roots {
		roots = append(roots, at(r))
	}
	return nodes, leaves, roots
}

// pick is the node or leaf of a reference.
func pick(nodes, leaves []*grown, ref int32) *grown {
	if ref < 0 {
		return leaves[^ref]
	}
	return nodes[ref]
}

// driftOf lists the counts of nodes and leaves in the order of flatten.
func driftOf(roots []*grown) *Drift {
	d := &Drift{}
	each(roots, func(g *grown) {
		learned, changed := &d.NodeLearned, &d.NodeChanged
		if g.left == nil {
			learned, changed = &d.LeafLearned, &d.LeafChanged
		}
		*learned, *changed = append(*learned, uint32(g.learned)), append(*changed, uint32(g.changed))
	})
	return d
}

// lags says whether so many rows of a node have changed that it is to be
// learned anew.
func (f *following) lags(g *grown) bool { return float64(g.changed) > f.Share*float64(g.learned) }

// settled notes that g and all below have just been learned from their rows.
func settled(root *grown) {
	each([]*grown{root}, func(g *grown) { g.learned, g.changed = g.rows, 0 })
}

// changes calls count for every row that went (by −1) and came (by 1).
func (f *following) changes(ctx context.Context, count func(row, by int) error) error {
	for _, rows := range []struct {
		list []int
		by   int
	}{{f.Removed, -1}, {f.Added, 1}} {
		for i, row := range rows.list {
			if i%1024 == 0 {
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			if err := count(row, rows.by); err != nil {
				return err
			}
			f.read++
		}
	}
	return nil
}

// features copies the given rows.
func (f *following) features(ctx context.Context, rows []int) (*vector.CSR, error) {
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: f.Cols}
	for i, row := range rows {
		if i%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		v, err := f.Rows.Row(row)
		if err != nil {
			return nil, err
		}
		if v.Value == nil {
			v.Value = slices.Repeat([]float32{1}, len(v.Index))
		}
		x.Append(v)
	}
	f.read += len(rows)
	if x.Cols > f.Cols {
		return nil, fmt.Errorf("%w: a row has feature %d of %d", ErrInput, x.Cols-1, f.Cols)
	}
	if err := x.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	return x, nil
}

// sets are the labels of the given rows.
func (f *following) sets(rows []int) (*labels.Matrix, error) {
	y, err := f.Rows.Sets(rows, f.Labels)
	if err == nil && (y.Rows() != len(rows) || y.Labels() != f.Labels) {
		err = fmt.Errorf("%w: labels of %d rows, not %d", ErrInput, y.Rows(), len(rows))
	}
	return y, err
}

// numbers are the row numbers of live rows given by their places.
func (f *following) numbers(places []int32) []int {
	out := make([]int, len(places))
	for i, at := range places {
		out[i] = f.Live[at]
	}
	return out
}

// selectedSets are the label sets of live rows given by their places.
func selectedSets(y *labels.Matrix, places []int32) *labels.Matrix {
	list := make([]int, len(places))
	for i, at := range places {
		list[i] = int(at)
	}
	return y.Select(list)
}

// has says whether an ascending set has a label.
func has(set []uint32, label uint32) bool {
	_, ok := slices.BinarySearch(set, label)
	return ok
}
