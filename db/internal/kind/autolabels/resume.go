package autolabels

import (
	"context"
	"errors"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/vector"
)

// earlier is a trial of a build that was cut short, which the next build of equal rows does not repeat.
type earlier struct {
	// Asked is the setting that was tried, Resolved has the member with what its own tuner chose.
	Asked    string `json:",omitempty"`
	Resolved index.Auto
	Info     index.AutoTrial
	Loss     float64
	Learning time.Duration
	// Scores is set for the best trial of each kind, whose scores of the held-out rows are stored.
	Scores bool `json:",omitempty"`
}

// check refuses trials that no build writes.
func (e *earlier) check() error {
	if memberOptions(&e.Resolved, e.Info.Kind) == nil {
		return errors.New("an earlier trial of no member")
	}
	return e.Resolved.Check(-1)
}

// scoreArrays writes or reads the scores of earlier trials, those of one after those of another.
func scoreArrays(s *arrays.Section, m *vector.CSR) {
	arrays.Field(s, 4, &m.Ptr)
	arrays.Field(s, 5, &m.Index)
	arrays.Field(s, 6, &m.Value)
}

// keep returns what the next build need not repeat.
func (t *tuner) keep() (list []earlier, scores *vector.CSR) {
	whole := slices.Clone(t.trials)
	whole = slices.DeleteFunc(whole, func(x *trial) bool { return x.partly || x.info.Error != "" })
	best := bestOf(whole)
	scores = &vector.CSR{}
	for _, x := range whole {
		e := earlier{Asked: x.asked, Info: x.info, Loss: x.loss, Learning: x.learning}
		setMember(&e.Resolved, x.options)
		if e.Scores = slices.Contains(best, x); e.Scores {
			for r := range x.scores.Rows() {
				scores.Append(x.scores.Row(r))
			}
		}
		list = append(list, e)
	}
	return list, scores
}

// resume takes over the trials of the index that is replaced, if its build was cut short and had the same
// rows and, but for the limits, the same options.
func (t *tuner) resume(ctx context.Context, st kind.Source) (err error) {
	defer st.Guard(debug.SetPanicOnFault(true), &err)
	m, err := st.ManifestNamed(t.job.Name)
	if err != nil || m == nil || m.Kind != Name || len(m.Segments) > 1 {
		return err
	}
	g, given, now := &m.Segments[0], *m.Given.(*index.Auto), *t.job.Given.(*index.Auto)
	given.Time, given.Memory = now.Time, now.Memory
	relabelled, err := st.Relabelled(m.Object) // all else of a row stays, and no other one gets its number
	same := relabelled == nil && g.Rows == t.job.End && g.Dead == t.dead() && reflect.DeepEqual(given, now)
	if err != nil || !same {
		return err
	}
	list := g.Own.(*detail).Earlier
	r, all := st.Arrays(ctx, t.job.Name, g.Object), vector.CSR{Cols: t.truth.Labels()}
	scoreArrays(r.Section(codec.KindLabelMatrix), &all)
	if len(list) == 0 || r.Err != nil {
		return r.Err
	}
	if err := all.Validate(); err != nil {
		return err
	}
	next := 0
	for _, e := range list {
		x := &trial{
			kind: memberKinds[e.Info.Kind], asked: e.Asked, options: memberOptions(&e.Resolved, e.Info.Kind),
			info: e.Info, loss: e.Loss, learning: e.Learning,
		}
		if e.Scores {
			x.scores = &vector.CSR{Value: []float32{}}
			for range t.truth.Rows() {
				if next == all.Rows() {
					return errors.New("an earlier trial without scores")
				}
				x.scores.Append(all.Row(next))
				next++
			}
			x.scores.Cols = all.Cols
		}
		t.earlier = append(t.earlier, x)
	}
	return nil
}
