package budget

import (
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// slopes turn a margin into the chance that a decision is positive,
// 1/(1 + e^(−slope·margin)). With 2, a margin of 1, which training asks for,
// makes 0.88. Paths of AT are long, up to the number of labels, and each wrong
// chance on them takes from all labels behind: 4, and 0.98, ranks far better
// there (precision at 1 on EURLEX57K's dev part: 0.82, where 2 has 0.58; PT: 0.70
// and 0.73). The chances rank labels; they are not calibrated.
var slopes = map[Kind]float64{PT: 2, AT: 4}

// reach is a part of a tree and the chance of coming there.
type reach struct {
	ref    int32
	chance float64
}

// Scores is the ranking of labels by a PT or AT: the score of a label is the
// chance, in 0…1, of coming to a leaf that has it, where each decision goes
// left with the chance 1/(1 + e^(−slope·margin)); slope is 2 for PT and 4 for
// AT. The threshold plays no part: it is how likely a label must be to be
// listed, not how likely it is. With a threshold of 0 the leaf that Set answers
// from is where every decision takes its likelier side.
//
// Parts of the tree that are reached with a chance below cut are not followed;
// 0 visits all of it. What they would add is less than cut for each of them;
// 0.001 is a good choice, which visits some tens of nodes. Labels with a score
// of 0 are not listed. The result is valid until the next call.
func (p *Predictor) Scores(x vector.Sparse, cut float64) vector.Sparse {
	p.load(x)
	if p.mass == nil {
		p.mass = make([]float64, p.m.Labels)
	}
	slope, threshold := slopes[p.m.Kind], float64(p.m.Threshold)
	p.queue = append(p.queue[:0], reach{p.m.Roots[0], 1})
	for len(p.queue) > 0 {
		last := len(p.queue) - 1
		at := p.queue[last]
		p.queue = p.queue[:last]
		if at.ref < 0 {
			for _, l := range p.m.Set(int(^at.ref)) {
				if p.mass[l] == 0 {
					p.labels = append(p.labels, l)
				}
				p.mass[l] += at.chance
			}
			continue
		}
		_, margin := p.decide(int(at.ref))
		yes := 1 / (1 + math.Exp(-slope*(margin+threshold)))
		if c := at.chance * (1 - yes); c > 0 && c >= cut {
			p.queue = append(p.queue, reach{p.m.Right[at.ref], c})
		}
		if c := at.chance * yes; c > 0 && c >= cut {
			p.queue = append(p.queue, reach{p.m.Left[at.ref], c})
		}
	}
	slices.Sort(p.labels)
	p.scores.Index, p.scores.Value = p.scores.Index[:0], p.scores.Value[:0]
	for _, l := range p.labels {
		if v := float32(min(p.mass[l], 1)); v > 0 {
			p.scores.Index = append(p.scores.Index, l)
			p.scores.Value = append(p.scores.Value, v)
		}
		p.mass[l] = 0
	}
	p.labels = p.labels[:0]
	return p.scores
}

// ClassScores is the score of every class of an SBT for a row, appended to to:
// that of the class's tree against the rest (see Class); with two classes, of
// the one tree for class 1 and its negative for class 0. Class answers the
// class of the largest score. O(as Class).
func (p *Predictor) ClassScores(to []float64, x vector.Sparse) []float64 {
	p.load(x)
	if len(p.m.Roots) == 1 {
		score := p.score(0)
		return append(to, -score, score)
	}
	for t := range p.m.Roots {
		to = append(to, p.score(t))
	}
	return to
}
