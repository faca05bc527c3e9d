package lcifindex

import (
	"cmp"
	"context"
	"slices"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// learned is a segment that has been learned but not yet stored.
type learned struct {
	postingsindex.Learned // without an inverted index in a dense collection
	weighing
	opts   options
	names  []string // of the labels that no earlier segment has
	sets   *labels.Matrix
	counts *labels.FeatureLabels
	keep   []uint64
	params lcif.Params
	curve  *lcif.Curve
	chance *labels.Calibration
	// small is set for a segment of later rows. It has the parameters, weights and selection of features
	// of the large one, and stores no powers of its sums.
	small bool
}

// Build learns a label model, or a segment of later rows.
func (Kind) Build(ctx context.Context, job *kind.Job) (kind.Built, error) {
	var data *labelled.Rows
	l, o := &learned{small: job.Base != nil}, options{}
	err := job.Latest(func(st kind.Source) (err error) {
		if l.small {
			return l.learnSmall(ctx, st, job)
		}
		c := st.Collection()
		if o, err = resolve(job, int(c.Live)); err != nil {
			return err
		}
		if err := resolveNeighbors(st, job, &o); err != nil {
			return err
		}
		err = job.Timer.Run("read", func(report func(int, int)) error {
			data, l.names, err = labelled.Read(ctx, st, job, nil, report)
			return err
		})
		// Where neighbors are searched for in the map, the snapshot must stay open.
		switch {
		case err != nil || c.Sparse && o.uses == "":
			return err
		case c.Sparse:
			if err := o.compareVectors(ctx, st); err != nil {
				return err
			}
			return l.learnSparse(ctx, job.Coll, data, o, job.Timer)
		}
		return l.learnDense(ctx, st, data, o, job.Timer)
	})
	if err == nil && l.sets == nil {
		err = l.learnSparse(ctx, job.Coll, data, o, job.Timer)
	}
	return l, err
}

// learnSparse learns the model of a sparse collection.
func (l *learned) learnSparse(
	ctx context.Context, coll string, data *labelled.Rows, o options, timer *kind.Timer,
) error {
	if err := labelled.CheckSpread(coll, data.Rows.Cols, len(data.Rows.Index)); err != nil {
		return err
	}
	var candidates []weighted
	for _, w := range o.candidates(labelled.WeightTFIDF) {
		own := *data
		if w != labelled.WeightNone {
			own.Rows = &vector.CSR{
				Ptr: data.Rows.Ptr, Index: data.Rows.Index, Value: slices.Clone(data.Rows.Value),
				Cols: data.Rows.Cols,
			}
		}
		candidates = append(candidates, weighted{weight: w, idf: own.Weigh(w, false), data: &own, cv: o.cv})
	}
	best, err := l.choose(ctx, candidates, o, timer)
	if err != nil {
		return err
	}
	l.idf = best.idf
	if n, rows := l.params.Features, best.data.Rows; n > 0 && n < rows.Cols {
		view := &lcif.View{Features: rows.Cols}
		view.SelectFeatures(labels.SelectFeatures(rows, n))
		l.keep = view.Keep
	}
	return l.count(ctx, best.data, true, timer)
}

// learnSmall learns a segment of later rows with what the first segment has learned.
func (l *learned) learnSmall(ctx context.Context, st kind.Source, job *kind.Job) error {
	if err := labelled.CheckSpreadOf(ctx, st); err != nil {
		return err
	}
	parts, err := readParts(ctx, st, job.Base, job.First)
	if err != nil {
		return err
	}
	var names []string
	for i := range parts {
		names = append(names, parts[i].names.All()...)
	}
	had, large := len(names), &parts[0]
	var data *labelled.Rows
	err = job.Timer.Run("read", func(report func(int, int)) error {
		data, names, err = labelled.Read(ctx, st, job, names, report)
		return err
	})
	if err != nil {
		return err
	}
	l.names = names[had:]
	l.weighing, l.keep = large.weighing(), large.keep
	if l.idf != nil || l.keep != nil || l.scale != nil {
		data.Rows = data.Mapped(large.Features, func(row int) vector.Sparse {
			x := l.prepare(data.Rows.Row(row))
			// Features that are newer than the model have no weight, and are not selected.
			n, _ := slices.BinarySearch(x.Index, uint32(large.Features))
			return vector.Sparse{Index: x.Index[:n], Value: x.Value[:n]}
		})
	}
	return l.count(ctx, data, st.Collection().Sparse, job.Timer)
}

// count computes what a segment stores from its rows, which are weighed and have their labels.
func (l *learned) count(ctx context.Context, data *labelled.Rows, sparse bool, timer *kind.Timer) error {
	l.Dead, l.sets = data.Rows.Rows()-len(data.Live), data.Sets
	units := lcif.UnitRows(data.Rows, &lcif.View{Features: data.Rows.Cols, Keep: l.keep})
	err := timer.Run("model", func(func(int, int)) (err error) {
		l.counts, err = labels.CountFeatureLabels(ctx, lcif.FeatureRows(units), data.Sets, kind.WorkersOf(ctx))
		return err
	})
	if err != nil {
		return fail.Wrapf(err, "label model")
	}
	if !sparse {
		return nil
	}
	l.Lengths = postings.Lengths(data.Rows, l.keep)
	err = timer.Run("postings", func(report func(int, int)) (err error) {
		l.Index, err = postings.Build(ctx, units, report)
		return err
	})
	if err != nil {
		return fail.Wrapf(err, "postings")
	}
	return nil
}

// Describe sets the options and the curve.
func (l *learned) Describe(m *kind.Manifest) {
	o := l.opts.LCIF
	o.Params, o.Cut = &l.params, nil
	m.Options, m.Uses, m.Info.LabelCurve, m.Info.Calibration = &o, l.opts.uses, l.curve, l.chance
	if l.Index == nil {
		o.Neighbors = m.Uses
	}
}

// Emit writes the arrays of a segment.
func (l *learned) Emit(w *arrays.Writer, g *kind.Segment) {
	d := &detail{Features: l.counts.Features(), Labels: len(l.names), Scale: l.scale}
	if l.Index != nil {
		d.Index = l.Put(w)
	}
	g.Dead, g.Own = l.Dead, d
	p := part{
		sets: l.sets.CSR(), sums: l.counts.Sum, rows: l.counts.Rows, keep: l.keep, idf: l.idf,
		pairs: labels.Pairs{Ptr: l.counts.Ptr, Label: l.counts.Label},
	}
	for _, s := range l.counts.Square {
		p.square = append(p.square, s.Hi, s.Lo)
	}
	if l.small {
		p.keep, p.idf, d.Scale = nil, nil, nil
	} else {
		p.pairs = l.counts.Pairs(storedPower(&l.params))
	}
	matrix := w.Section(codec.KindLabelMatrix)
	matrix.WriteNames(arrayLabelNames, l.names)
	p.arrays(matrix, w.Section(codec.KindSimilarity))
}

// storedPower returns the exponent of the powers that a label model with these parameters
// stores.
func storedPower(p *lcif.Params) float64 { return labels.StoredPower(cmp.Or(p.Beta, 1)) }
