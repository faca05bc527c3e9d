package autolabels

import (
	"cmp"
	"context"
	"runtime/debug"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// learnedModel is a member that has been learned from some of the rows.
type learnedModel struct {
	kind     kind.Kind
	built    kind.Built
	manifest *kind.Manifest // without segments
	tuned    float64        // seconds of its own tuner
}

// options returns the options of a model, in which nothing is left to a tuner.
func (m *learnedModel) options() index.Options { return m.manifest.Options }

// learn learns a member from rows.
func learn(
	ctx context.Context, k kind.Kind, o index.Options, job kind.Job, data *kind.LabelledRows,
) (*learnedModel, error) {
	job.Given, job.Data, job.Timer = o, data, kind.NewTimer(ctx)
	b, err := k.Build(ctx, &job)
	if err != nil {
		return nil, err
	}
	m := &learnedModel{kind: k, built: b, manifest: &kind.Manifest{Of: k}, tuned: job.Timer.Seconds["tune"]}
	b.Describe(m.manifest)
	m.manifest.Kind, m.manifest.Info.Name = m.manifest.Options.Name(), job.Name
	if l, ok := m.manifest.Options.(*index.LCIF); ok && l.Params.Thresholds != nil {
		// Labels are selected by their probability.
		own, p := *l, *l.Params
		p.Thresholds, own.Params = nil, &p
		m.manifest.Options = &own
	}
	return m, nil
}

// heldOut asks a model for the labels of held-out rows, at most deep of each, and returns their scores, and
// the size of the model.
func (m *learnedModel) heldOut(
	ctx context.Context, job *kind.Job, data *kind.LabelledRows, f labels.Fold, deep int,
) (scores []vector.Sparse, bytes int64, err error) {
	of, g := memory{}, kind.Segment{Object: 1, Rows: job.End, Dead: job.End}
	w := arrays.NewWriter(g.Object, of.put)
	if m.built.Emit(w, &g); w.Err != nil {
		return nil, 0, w.Err
	}
	g.Bytes = w.Sizes
	scores = make([]vector.Sparse, len(f.Test))
	err = job.Latest(func(st kind.Source) error {
		mem := newSource(st, of, job.End, f.Test)
		own := *m.manifest
		own.Segments, own.Metric, own.Dim = []kind.Segment{g}, mem.coll.Metric, mem.coll.Dim
		own.Total()
		bytes = own.Info.TotalBytes()
		x, err := m.kind.Open(ctx, mem, &own)
		if err != nil {
			return err
		}
		a := &asker{st: mem, model: x.(kind.LabelPredictor), deep: deep}
		if own.Uses != "" && own.Uses != kind.ScanName { // a forest has the held-out rows
			a.among = roaring.New()
			for _, row := range f.Train {
				a.among.Add(uint32(row))
			}
		}
		if !mem.coll.Sparse || mem.coll.Vectors > 0 {
			if a.vectors, err = st.Rows(ctx); err != nil {
				return err
			}
		}
		work := par.Work{N: len(f.Test), Grain: 16, Workers: kind.WorkersOf(ctx)}
		return par.Ranges(ctx, work, func() func(lo, hi int) error {
			own := *a
			return func(lo, hi int) error {
				for i := lo; i < hi; i++ {
					found, err := own.scores(ctx, f.Test[i], data.Rows.Row(f.Test[i]))
					if err != nil {
						return err
					}
					scores[i] = found
				}
				return nil
			}
		})
	})
	return scores, bytes, err
}

// asker asks a model for the labels of rows.
type asker struct {
	st      *source
	model   kind.LabelPredictor
	deep    int
	among   *roaring.Bitmap // the rows that may be neighbors, nil for all
	vectors *query.View     // nil if rows have features only
	answer  kind.LabelAnswer
	vector  []float32
}

// scores returns the scores above zero of a row's best labels.
func (a *asker) scores(ctx context.Context, row int, x vector.Sparse) (out vector.Sparse, err error) {
	defer a.st.Guard(debug.SetPanicOnFault(true), &err)
	ask := kind.LabelAsk{Top: a.deep, Rows: a.among}
	if v := a.vectors; v != nil && !v.IsDeleted(uint32(row)) {
		a.vector = slices.Grow(a.vector[:0], v.Dim)[:v.Dim]
		copy(a.vector, v.Rows.Vector(row, a.vector))
		ask.Vector = a.vector
	}
	a.answer = kind.LabelAnswer{Labels: a.answer.Labels[:0]}
	if err := a.model.Predict(ctx, x, &ask, &a.answer); err != nil {
		return out, err
	}
	return sparseScores(a.answer.Labels), nil
}

// sparseScores returns the scores of labels above zero, by label. It sorts the labels.
func sparseScores(list []kind.Ranked) (out vector.Sparse) {
	slices.SortFunc(list, func(a, b kind.Ranked) int { return cmp.Compare(a.Label, b.Label) })
	for _, r := range list {
		if r.Score > 0 {
			out.Index, out.Value = append(out.Index, r.Label), append(out.Value, r.Score)
		}
	}
	return out
}

// without returns rows without those of the test part of a fold, whose numbers stay.
func without(d *kind.LabelledRows, f labels.Fold) *kind.LabelledRows {
	out := &kind.LabelledRows{Live: f.Train, Names: d.Names}
	out.Rows = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	sets := vector.CSR{Ptr: []uint64{0}, Cols: d.Sets.Labels()}
	next := 0
	for row := range d.Rows.Rows() {
		var x vector.Sparse
		var set []uint32
		if next < len(f.Train) && f.Train[next] == row {
			x, set = d.Rows.Row(row), d.Sets.Row(row)
			next++
		}
		out.Rows.Append(x)
		sets.Index = append(sets.Index, set...)
		sets.Ptr = append(sets.Ptr, uint64(len(sets.Index)))
	}
	out.Rows.Cols = d.Rows.Cols
	out.Sets, _ = labels.NewMatrix(sets) // of valid sets
	return out
}
