package budget

// spans are where the subtrees of a model of one tree stand in its arrays: in
// the order of flatten the nodes of each are neighbours, and so are its leaves.
// The nodes below i are those behind it, up to nodeEnd[i], its leaves
// leafFrom[i] to leafEnd[i], the ends left out.
type spans struct {
	tree                       *Model
	nodeEnd, leafFrom, leafEnd []int32
}

// spansOf finds them, nil where the arrays are in another order, as a valid
// model's may be. O(nodes).
func spansOf(m *Model) *spans {
	n := m.Nodes()
	s := &spans{m, make([]int32, n), make([]int32, n), make([]int32, n)}
	for i := n - 1; i >= 0; i-- { // children stand behind
		from, middle, next := s.of(m.Left[i], i+1)
		begin, end, nodes := s.of(m.Right[i], next)
		if next < 0 || nodes < 0 || begin != middle {
			return nil
		}
		s.leafFrom[i], s.leafEnd[i], s.nodeEnd[i] = int32(from), int32(end), int32(nodes)
	}
	if from, end, nodes := s.of(m.Roots[0], 0); from != 0 || end != m.Leaves() || nodes != n {
		return nil
	}
	return s
}

// of has the leaves below a reference and where its nodes end, if they begin at
// the given one; a negative end otherwise.
func (s *spans) of(ref int32, at int) (leafFrom, leafEnd, nodeEnd int) {
	switch {
	case ref < 0:
		return int(^ref), int(^ref) + 1, at
	case int(ref) != at:
		return 0, 0, -1
	}
	return int(s.leafFrom[ref]), int(s.leafEnd[ref]), int(s.nodeEnd[ref])
}

// leavesAt are the leaves below a reference, from the first up to the second.
func (s *spans) leavesAt(ref int32) (from, end int) {
	from, end, _ = s.of(ref, int(ref))
	return from, end
}

// Whether a part of a tree is taken over from the model before.
const (
	isNew        = iota
	keepDecision // of the node before, above parts that may be others
	keepAll      // of the node or leaf before, with all that is below it
)

// assemble lays a tree out as flatten does that keeps parts of the model s.tree:
// they are copied as they stand, at the cost of copying memory. It returns the
// counts of changes too, of which the former are d. The large arrays are made as
// c says.
func (s *spans) assemble(m *Model, d *Drift, root *grown, c *Change) *Drift {
	a := &assembly{spans: s, former: d, m: m, d: &Drift{}, change: c}
	a.features(root)
	type pending struct {
		g  *grown
		at *int32
	}
	m.Roots = make([]int32, 1)
	stack := []pending{{root, &m.Roots[0]}}
	for len(stack) > 0 {
		next := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		g, node := next.g, m.Nodes()
		switch {
		case g.kept == keepAll:
			*next.at = a.copyAll(g.ref)
			continue
		case g.left == nil:
			*next.at = ^int32(m.Leaves())
			m.appendLeaf(g)
			a.d.LeafLearned, a.d.LeafChanged = append(a.d.LeafLearned, uint32(g.learned)), append(a.d.LeafChanged, uint32(g.changed))
			continue
		case g.kept == keepDecision:
			a.copyDecision(g)
		default:
			m.appendNode(g, a.place)
			a.d.NodeLearned, a.d.NodeChanged = append(a.d.NodeLearned, uint32(g.learned)), append(a.d.NodeChanged, uint32(g.changed))
		}
		*next.at = int32(node)
		stack = append(stack, pending{g.right, &m.Right[node]}, pending{g.left, &m.Left[node]})
	}
	return a.d
}

// assembly is the work of assemble.
type assembly struct {
	*spans
	former *Drift
	change *Change
	m      *Model // to be made
	d      *Drift
	place  []uint32 // of each feature in the table of m
	moved  []uint32 // of each place in the table before its place now; nil where all are the same
}

// features makes the table of the features that the tree uses, and room for all
// arrays.
func (a *assembly) features(root *grown) {
	old, m := a.tree, a.m
	used := make([]bool, len(old.Features))
	a.place = make([]uint32, m.Cols)
	nodes, leaves, entries, ones, set := 0, 0, 0, 0, 0
	from := func(lo, hi int) { // entries of nodes before
		for _, p := range old.NodeFeature[lo:hi] {
			used[p] = true
		}
		entries += hi - lo
	}
	each([]*grown{root}, func(g *grown) {
		switch g.kept {
		case keepAll:
			leafFrom, leafEnd := a.leavesAt(g.ref)
			leaves += leafEnd - leafFrom
			set += int(old.SetPtr[leafEnd] - old.SetPtr[leafFrom])
			if g.ref < 0 {
				return
			}
			lo, hi := int(g.ref), int(a.nodeEnd[g.ref])
			nodes += hi - lo
			from(int(old.NodePtr[lo]), int(old.NodePtr[hi]))
			if old.Kind == AT {
				ones += int(old.OnePtr[hi] - old.OnePtr[lo])
			}
			return
		case keepDecision:
			from(int(old.NodePtr[g.ref]), int(old.NodePtr[g.ref+1]))
		default:
			for _, f := range g.features {
				a.place[f] = 1
			}
			entries += len(g.features)
		}
		if g.left == nil {
			leaves++
			set += len(g.set)
			return
		}
		nodes++
		ones += len(g.ones)
	})
	for p, f := range old.Features {
		if used[p] {
			a.place[f] = 1
		}
	}
	for f, selected := range a.place {
		if selected > 0 {
			a.place[f] = uint32(len(m.Features))
			m.Features = append(m.Features, uint32(f))
		}
	}
	for p, f := range old.Features {
		if used[p] && a.place[f] != uint32(p) {
			a.moved = make([]uint32, len(old.Features))
			for p, f := range old.Features {
				a.moved[p] = a.place[f]
			}
			break
		}
	}
	for _, list := range []struct {
		at   *[]uint32
		room int
	}{
		{&m.NodePtr, nodes + 1}, {&m.NodeRows, nodes}, {&m.NodeErrors, nodes},
		{&m.NodeLabel, m.only(AT, nodes)}, {&m.NodeWorking, m.only(AT, nodes)}, {&m.OnePtr, m.only(AT, nodes+1)}, {&m.OneLabel, ones},
		{&m.LeafRows, leaves}, {&m.SetPtr, leaves + 1},
		{&a.d.NodeLearned, nodes}, {&a.d.NodeChanged, nodes}, {&a.d.LeafLearned, leaves}, {&a.d.LeafChanged, leaves},
	} {
		if list.room > 0 {
			*list.at = make([]uint32, 0, list.room)
		}
	}
	m.Left, m.Right = make([]int32, 0, nodes), make([]int32, 0, nodes)
	m.Offset = make([]float32, 0, nodes*m.Voters)
	words, floats := a.change.Uint32s, a.change.Float32s
	if words == nil {
		words = func(n int) []uint32 { return make([]uint32, n) }
	}
	if floats == nil {
		floats = func(n int) []float32 { return make([]float32, n) }
	}
	m.NodeFeature, m.Weight, m.SetLabel = words(entries)[:0], floats(entries * m.Voters)[:0], words(set)[:0]
	m.NodePtr, m.SetPtr = append(m.NodePtr, 0), append(m.SetPtr, 0)
	if m.Kind == AT {
		m.OnePtr = append(m.OnePtr, 0)
	}
}

// copyDecision appends a node that decides as the one before.
func (a *assembly) copyDecision(g *grown) {
	i := int(g.ref)
	a.copyDecisions(i, i+1)
	m := a.m
	m.Left, m.Right = append(m.Left, 0), append(m.Right, 0)
	m.NodeRows = append(m.NodeRows, uint32(g.rows))
	a.d.NodeLearned, a.d.NodeChanged = append(a.d.NodeLearned, a.former.NodeLearned[i]), append(a.d.NodeChanged, uint32(g.changed))
	if m.Kind == AT {
		m.OneLabel = append(m.OneLabel, g.ones...)
		m.OnePtr = append(m.OnePtr, uint32(len(m.OneLabel)))
		m.NodeWorking = append(m.NodeWorking, uint32(g.working))
	}
}

// copyDecisions appends what the nodes lo to hi decide by.
func (a *assembly) copyDecisions(lo, hi int) {
	old, m := a.tree, a.m
	from, end := old.NodePtr[lo], old.NodePtr[hi]
	m.NodePtr = appendMoved(m.NodePtr, old.NodePtr[lo+1:hi+1], uint32(len(m.NodeFeature))-from)
	if a.moved == nil {
		m.NodeFeature = append(m.NodeFeature, old.NodeFeature[from:end]...)
	} else {
		for _, p := range old.NodeFeature[from:end] {
			m.NodeFeature = append(m.NodeFeature, a.moved[p])
		}
	}
	v := m.Voters
	m.Weight = append(m.Weight, old.Weight[int(from)*v:int(end)*v]...)
	m.Offset = append(m.Offset, old.Offset[lo*v:hi*v]...)
	m.NodeErrors = append(m.NodeErrors, old.NodeErrors[lo:hi]...)
	if m.Kind == AT {
		m.NodeLabel = append(m.NodeLabel, old.NodeLabel[lo:hi]...)
	}
}

// copyAll appends a node or leaf before with all that is below it, and returns
// its reference.
func (a *assembly) copyAll(ref int32) int32 {
	old, m := a.tree, a.m
	leafFrom, leafEnd := a.leavesAt(ref)
	root, leaf := int32(m.Nodes()), int32(m.Leaves())
	m.LeafRows = append(m.LeafRows, old.LeafRows[leafFrom:leafEnd]...)
	m.SetPtr = appendMoved(m.SetPtr, old.SetPtr[leafFrom+1:leafEnd+1], uint32(len(m.SetLabel))-old.SetPtr[leafFrom])
	m.SetLabel = append(m.SetLabel, old.SetLabel[old.SetPtr[leafFrom]:old.SetPtr[leafEnd]]...)
	a.d.LeafLearned = append(a.d.LeafLearned, a.former.LeafLearned[leafFrom:leafEnd]...)
	a.d.LeafChanged = append(a.d.LeafChanged, a.former.LeafChanged[leafFrom:leafEnd]...)
	if ref < 0 {
		return ^leaf
	}
	lo, hi := int(ref), int(a.nodeEnd[ref])
	a.copyDecisions(lo, hi)
	nodes, leaves := root-ref, leaf-int32(leafFrom)
	move := func(dst, src []int32) []int32 {
		for _, r := range src {
			if r < 0 {
				r -= leaves // of ^leaf
			} else {
				r += nodes
			}
			dst = append(dst, r)
		}
		return dst
	}
	m.Left, m.Right = move(m.Left, old.Left[lo:hi]), move(m.Right, old.Right[lo:hi])
	m.NodeRows = append(m.NodeRows, old.NodeRows[lo:hi]...)
	a.d.NodeLearned = append(a.d.NodeLearned, a.former.NodeLearned[lo:hi]...)
	a.d.NodeChanged = append(a.d.NodeChanged, a.former.NodeChanged[lo:hi]...)
	if m.Kind == AT {
		m.OnePtr = appendMoved(m.OnePtr, old.OnePtr[lo+1:hi+1], uint32(len(m.OneLabel))-old.OnePtr[lo])
		m.OneLabel = append(m.OneLabel, old.OneLabel[old.OnePtr[lo]:old.OnePtr[hi]]...)
		m.NodeWorking = append(m.NodeWorking, old.NodeWorking[lo:hi]...)
	}
	return root
}

// appendMoved appends numbers with by added, modulo 2³².
func appendMoved(dst, src []uint32, by uint32) []uint32 {
	for _, v := range src {
		dst = append(dst, v+by)
	}
	return dst
}
