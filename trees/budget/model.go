package budget

import (
	"fmt"

	"github.com/anndb/anndb/vector"
)

// Kind is a kind of trees.
type Kind string

// The kinds of trees.
const (
	// SBT is a supervised budgeted tree (algorithm 2), one per class against the
	// rest where there are more than two classes. At each node the folds of embedded
	// cross-validation (equation 11) choose one feature set together and vote; rows
	// voted positive go left. A node becomes a leaf of the majority's class if its
	// rows are of one class, too few, too deep or all on one side. Then, bottom up,
	// children are removed that have at least as many cross-validation errors as the
	// node itself. The trees share one injection table.
	SBT Kind = "sbt"
	// PT is a powerset tree (algorithm 3). Every label set of the training rows is a
	// leaf. The two nodes of fewest rows are joined again and again, as in Huffman
	// codes, and a classifier at each joint separates the rows of the rarer node
	// (left) from those of the other. Ties go to the node made first, leaves in the
	// order of labels.Powersets. A prediction takes H to H + 1 decisions on average
	// over the training rows, if they are right, where H is the entropy of their
	// label sets (theorem 12).
	PT Kind = "pt"
	// AT is an annotation tree (algorithm 4). A node decides the most frequent label
	// of its working set (ties: the smallest) and is trained on all its rows; rows
	// with the label go left, by their labels, not by the decision. Labels that all
	// rows of the node have, or none has, need no decision: they are its one-set and
	// its zero-set (definitions 9 and 10), and the other labels its working set.
	// Where that is empty, the leaf has the labels decided or recorded on its path.
	// The leaves are the label sets of the training rows. With MinPositive above 1,
	// rare labels are not decided, and a leaf may have rows of several label sets.
	//
	// Decisions on a path are as many as labels on a long right spine in the worst
	// case; on average they are at least the entropy H of the leaves. Theorem 13 also
	// claims less than H + 1, which is not true of all data: q labels of one row each
	// take (q+1)/2 - 1/q decisions on average, while H = log2 q.
	AT Kind = "at"
)

// MaxVoters bounds the classifiers that vote at a node.
const MaxVoters = 32

// Model is one or more trees in flat arrays, which may be views over mapped
// memory. Nodes and leaves are numbered apart; a reference r ≥ 0 is node r, r
// < 0 is leaf ^r. A node stands before its children, so every walk ends.
//
// A node sends a row to its left child when the decision is positive: when
// more than half of its Voters classifiers have a margin above Threshold; in a
// tie the mean margin decides. All classifiers of a node share its features
// (equation 11).
//
// Features is the injection table of section 7: nodes name features by their
// place in it, so that a row is first laid out as an array of the selected
// features only and every access to a feature is a direct one.
type Model struct {
	Kind   Kind
	Cols   int // m, features of the space; those of a row beyond are ignored
	Labels int // labels of PT and AT; classes of SBT: 2, or the trees of one-against-rest
	Voters int // classifiers a node: the folds of SBT, 1 for PT and AT
	// Threshold is what a margin must exceed for a positive decision: 0, unless
	// it was tuned.
	Threshold float32
	// KeepTop is that of the parameters of an AT.
	KeepTop bool

	Roots    []int32  // a reference for each tree
	Features []uint32 // the selected features, ascending

	Left, Right []int32   // references of each node
	NodePtr     []uint32  // nodes + 1 offsets into NodeFeature
	NodeFeature []uint32  // places in Features, ascending in a node
	Weight      []float32 // of entry e and voter v at e·Voters + v
	Offset      []float32 // of node i and voter v at i·Voters + v
	NodeRows    []uint32  // training rows that reached the node
	// NodeErrors is, for SBT, the cross-validation errors of the node's decision
	// on the rows that classifiers not trained on them sent there; 0 for others.
	NodeErrors []uint32
	// NodeLabel is, for AT, the label that the node decides; else empty.
	NodeLabel []uint32
	// The one-set of AT nodes (definition 10): labels that all rows of the node
	// have and that no node above decided or recorded; else empty.
	OnePtr   []uint32 // nodes + 1 offsets into OneLabel
	OneLabel []uint32
	// NodeWorking is, for AT, the size of the node's working label set; else
	// empty. The zero-set is what is left of the working set above, without the
	// label decided there and the one-set.
	NodeWorking []uint32

	LeafRows []uint32 // training rows that reached the leaf
	// LeafPositive is, for SBT, how many of them are positive, and LeafClass
	// the answer ±1; else empty.
	LeafPositive []uint32
	LeafClass    []int8
	// The label sets of the leaves of PT and AT, ascending; else empty.
	SetPtr   []uint32 // leaves + 1 offsets into SetLabel
	SetLabel []uint32
}

// Nodes is the number of decision nodes.
func (m *Model) Nodes() int { return len(m.Left) }

// Leaves is the number of leaves.
func (m *Model) Leaves() int { return len(m.LeafRows) }

// Set is the label set of a leaf of PT or AT, ascending. It must not be
// changed.
func (m *Model) Set(leaf int) []uint32 {
	lo, hi := m.SetPtr[leaf], m.SetPtr[leaf+1]
	return m.SetLabel[lo:hi:hi]
}

// Ones is the one-set recorded at a node of AT; empty for other kinds. It must
// not be changed.
func (m *Model) Ones(node int) []uint32 {
	if len(m.OnePtr) == 0 {
		return nil
	}
	lo, hi := m.OnePtr[node], m.OnePtr[node+1]
	return m.OneLabel[lo:hi:hi]
}

// Validate checks that the arrays fit each other, so that no evaluation of any
// row can go beyond them or run forever: to be called once on a model that
// comes from outside. O(size of the model).
//
// Errors: ErrInvalid with the place.
func (m *Model) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
	}
	if m.Kind != SBT && m.Kind != PT && m.Kind != AT {
		return bad("kind %q", m.Kind)
	}
	if m.Voters < 1 || m.Voters > MaxVoters || m.Kind != SBT && m.Voters != 1 {
		return bad("%d voters", m.Voters)
	}
	if m.Cols < 0 || m.Labels < 1 || !finite(m.Threshold) {
		return bad("%d features, %d labels, threshold %v", m.Cols, m.Labels, m.Threshold)
	}
	trees := 1
	if m.Kind == SBT && m.Labels > 2 {
		trees = m.Labels
	}
	if len(m.Roots) != trees {
		return bad("%d trees for %d labels", len(m.Roots), m.Labels)
	}
	nodes, leaves := m.Nodes(), m.Leaves()
	for _, a := range []struct {
		name      string
		got, want int
	}{
		{"right children", len(m.Right), nodes},
		{"offsets", len(m.Offset), nodes * m.Voters},
		{"node rows", len(m.NodeRows), nodes},
		{"node errors", len(m.NodeErrors), nodes},
		{"weights", len(m.Weight), len(m.NodeFeature) * m.Voters},
		{"node labels", len(m.NodeLabel), m.only(AT, nodes)},
		{"working sets", len(m.NodeWorking), m.only(AT, nodes)},
		{"positive rows", len(m.LeafPositive), m.only(SBT, leaves)},
		{"leaf classes", len(m.LeafClass), m.only(SBT, leaves)},
	} {
		if a.got != a.want {
			return bad("%d %s where %d belong", a.got, a.name, a.want)
		}
	}
	if err := m.checkLists(); err != nil {
		return err
	}
	for _, v := range [][]float32{m.Weight, m.Offset} {
		if i := vector.IsFinite(v); i >= 0 {
			return bad("weight or offset %d is %v", i, v[i])
		}
	}
	for i, l := range m.NodeLabel {
		if int(l) >= m.Labels {
			return bad("node %d decides label %d of %d", i, l, m.Labels)
		}
	}
	for i, c := range m.LeafClass {
		if c != 1 && c != -1 || m.LeafPositive[i] > m.LeafRows[i] {
			return bad("leaf %d has class %d, %d of %d rows positive", i, c, m.LeafPositive[i], m.LeafRows[i])
		}
	}
	return m.checkTrees()
}

// only is n for models of the kind, 0 for others.
func (m *Model) only(kind Kind, n int) int {
	if m.Kind == kind {
		return n
	}
	return 0
}

func finite(v float32) bool { return v-v == 0 }

// checkLists checks the lists of features and labels.
func (m *Model) checkLists() error {
	if err := ascending("feature", -1, m.Features, m.Cols); err != nil {
		return err
	}
	if err := checkCSR("feature", m.NodePtr, m.NodeFeature, m.Nodes(), len(m.Features)); err != nil {
		return err
	}
	if m.Kind == AT {
		if err := checkCSR("label", m.OnePtr, m.OneLabel, m.Nodes(), m.Labels); err != nil {
			return err
		}
	} else if len(m.OnePtr)+len(m.OneLabel) != 0 {
		return fmt.Errorf("%w: one-sets in a model of kind %s", ErrInvalid, m.Kind)
	}
	if m.Kind != SBT {
		return checkCSR("label", m.SetPtr, m.SetLabel, m.Leaves(), m.Labels)
	}
	if len(m.SetPtr)+len(m.SetLabel) != 0 {
		return fmt.Errorf("%w: label sets in a model of kind %s", ErrInvalid, m.Kind)
	}
	return nil
}

// checkCSR checks rows ascending lists of numbers below limit.
func checkCSR(what string, ptr, list []uint32, rows, limit int) error {
	if len(ptr) != rows+1 || ptr[0] != 0 || int(ptr[rows]) != len(list) {
		return fmt.Errorf("%w: offsets of the %s lists do not span them", ErrInvalid, what)
	}
	for i := range rows {
		if ptr[i] > ptr[i+1] || int(ptr[i+1]) > len(list) {
			return fmt.Errorf("%w: %s list %d has offsets %d to %d", ErrInvalid, what, i, ptr[i], ptr[i+1])
		}
		if err := ascending(what, i, list[ptr[i]:ptr[i+1]], limit); err != nil {
			return err
		}
	}
	return nil
}

// ascending checks one list, of row i of a matrix or on its own (-1).
func ascending(what string, i int, list []uint32, limit int) error {
	for e, v := range list {
		if int(v) >= limit || e > 0 && v <= list[e-1] {
			return fmt.Errorf("%w: %s list %d does not ascend below %d at entry %d", ErrInvalid, what, i, limit, e)
		}
	}
	return nil
}

// checkTrees checks that every node and leaf hangs at one place, below its
// parent.
func (m *Model) checkTrees() error {
	nodes, leaves := m.Nodes(), m.Leaves()
	seen := make([]bool, nodes+leaves)
	visit := func(parent int, ref int32) error {
		at := int(ref)
		if ref < 0 {
			at = nodes + int(^ref)
		}
		if at >= len(seen) || ref >= 0 && (at >= nodes || at <= parent) || seen[at] {
			return fmt.Errorf("%w: node %d leads to %d", ErrInvalid, parent, ref)
		}
		seen[at] = true
		return nil
	}
	for _, r := range m.Roots {
		if err := visit(-1, r); err != nil {
			return err
		}
	}
	for i := range nodes {
		for _, r := range [2]int32{m.Left[i], m.Right[i]} {
			if err := visit(i, r); err != nil {
				return err
			}
		}
	}
	for at, ok := range seen {
		if !ok {
			return fmt.Errorf("%w: nothing leads to entry %d", ErrInvalid, at)
		}
	}
	return nil
}

// rowsAt is how many rows come to a node or leaf, by reference.
func (m *Model) rowsAt(ref int32) uint32 {
	if ref < 0 {
		return m.LeafRows[^ref]
	}
	return m.NodeRows[ref]
}

// CheckCounts checks the counts of a model against each other: n rows reach every
// root, and as many rows reach a node as leave it. The model must be valid.
// O(nodes).
//
// Errors: ErrInvalid with the place.
func (m *Model) CheckCounts(n int) error {
	for i := range m.Left {
		left, right := uint64(m.rowsAt(m.Left[i])), uint64(m.rowsAt(m.Right[i]))
		if left+right != uint64(m.NodeRows[i]) {
			return fmt.Errorf("%w: %d rows reach node %d, %d go left and %d right",
				ErrInvalid, m.NodeRows[i], i, left, right)
		}
	}
	for t, r := range m.Roots {
		if uint64(m.rowsAt(r)) != uint64(n) {
			return fmt.Errorf("%w: %d rows reach the root of tree %d, want %d", ErrInvalid, m.rowsAt(r), t, n)
		}
	}
	return nil
}
