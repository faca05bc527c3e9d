package budget

import (
	"context"
	"math"
	"slices"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// scoreCut is the least chance of a path that the scores of predictions follow.
const scoreCut = 0.001

// HeldOutScores trains on the rows of a job and returns the scores of other rows: those of
// Predictor.LabelScores. A class of SBT that no training row has gets no score. Errors: those of Train.
func HeldOutScores(ctx context.Context, kind Kind, job Job, test []vector.Sparse) (*vector.CSR, error) {
	var m *Model
	var known []uint32
	var err error
	out := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	if kind == SBT {
		m, known, err = job.trainKnown(ctx)
		out.Cols = job.Classes
	} else {
		m, err = Train(ctx, kind, job)
		out.Cols = job.Sets.Labels()
	}
	if err != nil {
		return nil, err
	}
	rows := make([]vector.Sparse, len(test))
	index := NewIndex(m)
	err = par.Items(ctx, batchOf(len(test), job.Workers), func() func(int) error {
		p := NewPredictor(index)
		return func(i int) error {
			s := p.LabelScores(test[i])
			rows[i] = vector.Sparse{Index: slices.Clone(s.Index), Value: slices.Clone(s.Value)}
			return nil
		}
	})
	cols := out.Cols
	for _, r := range rows {
		copy(r.Index, known) // SBT scores all classes, ascending
		out.Append(r)
	}
	out.Cols = cols
	return out, err
}

// LabelScores returns the scores of labels, none below 0: those of Scores, and of SBT the chance 1/(1 + e^-s)
// of each class with the score s (ClassScores). The result is valid until the next call.
func (p *Predictor) LabelScores(x vector.Sparse) vector.Sparse {
	if p.m.Kind != SBT {
		return p.Scores(x, scoreCut)
	}
	p.scores.Index, p.scores.Value = p.scores.Index[:0], p.scores.Value[:0]
	for c, s := range p.ClassScores(nil, x) {
		p.scores.Index = append(p.scores.Index, uint32(c))
		p.scores.Value = append(p.scores.Value, Chance(s))
	}
	return p.scores
}

// Chance returns 1/(1 + e^-score), above 0.
func Chance(score float64) float32 {
	return max(float32(1/(1+math.Exp(-score))), math.SmallestNonzeroFloat32)
}
