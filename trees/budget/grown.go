package budget

// grown is a node or leaf while a tree grows.
type grown struct {
	left, right *grown // nil in leaves
	features    []uint32
	weights     []float32 // of feature i and voter v at i·voters + v
	offsets     []float32 // of each voter
	rows        int
	positive    int
	wrong       int // rows to test with that are not of the majority's class
	errors      int // of them, what the classifiers have wrong
	label       uint32
	ones        []uint32
	working     int
	set         []uint32
	class       int8
}

// flatten lays trees out as the arrays of a model: nodes in the order of a
// walk that goes left first. The walk keeps its own stack, since annotation
// trees are as deep as there are labels.
func flatten(m *Model, roots []*grown) {
	place := make([]uint32, m.Cols) // of each feature
	weights, labels := 0, 0
	count := 0
	each(roots, func(g *grown) {
		for _, f := range g.features {
			place[f] = 1
		}
		if weights += len(g.weights); g.left != nil {
			count++
		}
		labels += len(g.set)
	})
	for f, selected := range place {
		if selected > 0 {
			place[f] = uint32(len(m.Features))
			m.Features = append(m.Features, uint32(f))
		}
	}
	m.NodeFeature, m.Weight = make([]uint32, 0, weights/m.Voters), make([]float32, 0, weights)
	m.SetLabel = make([]uint32, 0, labels)
	m.NodePtr = []uint32{0}
	if m.Kind == AT {
		m.OnePtr = []uint32{0}
	}
	if m.Kind != SBT {
		m.SetPtr = []uint32{0}
	}
	type pending struct {
		g  *grown
		at *int32
	}
	m.Roots = make([]int32, len(roots))
	// The arrays of children must not move while places in them are pending.
	m.Left, m.Right = make([]int32, 0, count), make([]int32, 0, count)
	for t, root := range roots {
		stack := []pending{{root, &m.Roots[t]}}
		for len(stack) > 0 {
			next := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if next.g.left == nil {
				*next.at = ^int32(m.Leaves())
				m.appendLeaf(next.g)
				continue
			}
			node := m.Nodes()
			*next.at = int32(node)
			m.appendNode(next.g, place)
			stack = append(stack, pending{next.g.right, &m.Right[node]}, pending{next.g.left, &m.Left[node]})
		}
	}
}

func (m *Model) appendNode(g *grown, place []uint32) {
	m.Left = append(m.Left, 0)
	m.Right = append(m.Right, 0)
	for _, f := range g.features {
		m.NodeFeature = append(m.NodeFeature, place[f])
	}
	m.NodePtr = append(m.NodePtr, uint32(len(m.NodeFeature)))
	m.Weight = append(m.Weight, g.weights...)
	m.Offset = append(m.Offset, g.offsets...)
	m.NodeRows = append(m.NodeRows, uint32(g.rows))
	m.NodeErrors = append(m.NodeErrors, uint32(g.errors))
	if m.Kind == AT {
		m.NodeLabel = append(m.NodeLabel, g.label)
		m.OneLabel = append(m.OneLabel, g.ones...)
		m.OnePtr = append(m.OnePtr, uint32(len(m.OneLabel)))
		m.NodeWorking = append(m.NodeWorking, uint32(g.working))
	}
}

func (m *Model) appendLeaf(g *grown) {
	m.LeafRows = append(m.LeafRows, uint32(g.rows))
	if m.Kind == SBT {
		m.LeafPositive = append(m.LeafPositive, uint32(g.positive))
		m.LeafClass = append(m.LeafClass, g.class)
		return
	}
	m.SetLabel = append(m.SetLabel, g.set...)
	m.SetPtr = append(m.SetPtr, uint32(len(m.SetLabel)))
}

// each calls f for every node and leaf, in the order of flatten.
func each(roots []*grown, f func(*grown)) {
	for _, root := range roots {
		stack := []*grown{root}
		for len(stack) > 0 {
			g := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			f(g)
			if g.left != nil {
				stack = append(stack, g.right, g.left)
			}
		}
	}
}

// take fills in the classifiers of a node from trained folds: the features
// that any of them uses, with the weights of all.
func (g *grown) take(p *problem, folds []*fold) {
	p.order = p.byFeature()
	for _, l := range p.order {
		used := false
		for _, f := range folds {
			used = used || float32(f.weight[l]) != 0
		}
		if !used {
			continue
		}
		g.features = append(g.features, p.features[l])
		for _, f := range folds {
			g.weights = append(g.weights, float32(f.weight[l]))
		}
	}
	for _, f := range folds {
		g.offsets = append(g.offsets, float32(f.b))
	}
}
