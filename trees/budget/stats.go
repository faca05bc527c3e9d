package budget

import "math"

// Stats describes a model.
type Stats struct {
	Kind                 Kind
	Trees, Nodes, Leaves int
	// Depth is the most decisions on a path.
	Depth int
	// Features is the number of selected features, Weights that of stored
	// weights, Bytes the size of all arrays.
	Features, Weights, Bytes int
	// Decisions is the mean number of decisions (annotations) on the paths of
	// the training rows to their leaves, and Entropy that of the leaves' shares
	// of these rows, in bits: H ≤ mean for every tree, mean < H + 1 for PT
	// (theorem 12). Theorem 13 claims the latter for AT, too; that does not hold:
	// q labels of one row each make a chain of (q+1)/2 − 1/q decisions in the
	// mean, while H = log₂ q. Both are means over the trees.
	Decisions, Entropy float64
}

// Stats computes the model's description. O(size of the model).
func (m *Model) Stats() Stats {
	s := Stats{
		Kind: m.Kind, Trees: len(m.Roots), Nodes: m.Nodes(), Leaves: m.Leaves(),
		Features: len(m.Features), Weights: len(m.Weight),
		Bytes: 4*(len(m.Roots)+len(m.Features)+2*len(m.Left)+len(m.NodePtr)+len(m.NodeFeature)+
			len(m.Weight)+len(m.Offset)+
			len(m.NodeRows)+len(m.NodeErrors)+len(m.NodeLabel)+len(m.OnePtr)+len(m.OneLabel)+len(m.NodeWorking)+
			len(m.LeafRows)+len(m.LeafPositive)+len(m.SetPtr)+len(m.SetLabel)) + len(m.LeafClass),
	}
	type visit struct {
		ref   int32
		depth int
	}
	for _, root := range m.Roots {
		rows, steps, bits := 0.0, 0.0, 0.0
		stack := []visit{{root, 0}}
		for len(stack) > 0 {
			v := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			s.Depth = max(s.Depth, v.depth)
			if v.ref >= 0 {
				stack = append(stack, visit{m.Left[v.ref], v.depth + 1}, visit{m.Right[v.ref], v.depth + 1})
				continue
			}
			if n := float64(m.LeafRows[^v.ref]); n > 0 {
				rows += n
				steps += n * float64(v.depth)
				bits -= n * math.Log2(n)
			}
		}
		if rows > 0 {
			s.Decisions += steps / rows / float64(len(m.Roots))
			s.Entropy += (bits/rows + math.Log2(rows)) / float64(len(m.Roots))
		}
	}
	return s
}
