package lcifindex

import (
	"bytes"
	"context"
	"slices"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// Predictions of a model of several segments are those of a model of one, bit for bit: the sums of segments
// are integers, and are added before they are raised to a power.

// labelModel is a stored label model in one generation.
type labelModel struct {
	weighing
	st       kind.Source
	rows     kind.Rows
	segments []postings.Segment // of sparse rows
	covered  int                // number of rows in them
	view     *lcif.View
	names    codec.Strings // of the first segment
	more     []string      // labels after these: of the other segments, and of rows written or relabelled since
	params   lcif.Params   // with thresholds for all labels
	// rowsOf has the number of rows of each label in the segments; later labels have none.
	rowsOf  []int
	version uint64 // see grouped.Model
}

// weighing is how a model weighs rows: by feature, or by the scale of a dense collection, or not.
type weighing struct {
	idf   []float32
	scale *lcif.Scaling
}

// prepare returns a copy of a row or query, weighed or scaled as the rows of the model are.
func (w *weighing) prepare(x vector.Sparse) vector.Sparse {
	switch {
	case w.scale != nil:
		dense := make([]float32, len(w.scale.Mean))
		for i, j := range x.Index {
			dense[j] = x.Value[i]
		}
		return kind.Listed(w.scale.Apply(make([]float32, 0, len(dense)), dense))
	case w.idf != nil:
		x = vector.Sparse{Index: slices.Clone(x.Index), Value: slices.Clone(x.Value)}
		labelled.Weigh(x, w.idf)
	}
	return x
}

// Open opens a label model from its arrays, and adds the rows written since.
func (Kind) Open(ctx context.Context, st kind.Source, m *kind.Manifest) (kind.Opened, error) {
	sparse, scale := st.Collection().Sparse, largeOf(m).Scale
	if scale != nil && (sparse || !scale.Valid(st.Collection().Dim)) {
		return nil, fail.Corruptf(st.Collection().Name,
			"index %q: the scale of its columns does not fit the collection", m.Info.Name)
	}
	rows, err := kind.ReadRows(ctx, st)
	if err != nil {
		return nil, err
	}
	parts, err := readParts(ctx, st, m, m.Info.Rows)
	if err != nil {
		return nil, err
	}
	large := &parts[0]
	out := &labelModel{
		weighing: large.weighing(), st: st, rows: rows, covered: m.Info.Rows, names: large.names,
		params: *paramsOf(m),
		view:   &lcif.View{Features: large.Features, Keep: large.keep},
	}
	out.view.Row = out.row
	for i := range parts {
		p := &parts[i]
		if (p.Index != nil) != sparse {
			return nil, fail.Corruptf(st.Collection().Name,
				"index %q: its inverted index does not fit the collection", m.Info.Name)
		}
		if large.keep == nil && large.idf == nil {
			out.view.Features = max(out.view.Features, p.Features)
		}
		if sparse {
			at := &postingsindex.Stored{
				Object: p.segment.Object, First: p.segment.First, Rows: p.segment.Rows, Index: p.Index,
			}
			w := &postingsindex.Weighing{IDF: large.idf, Keep: large.keep}
			g, err := postingsindex.Load(ctx, st, m.Info.Name, at, w)
			if err != nil {
				return nil, err
			}
			out.segments = append(out.segments, g)
		}
	}
	if err := out.add(m, parts); err != nil {
		return nil, err
	}
	if sparse && m.Uses == "" {
		return out, nil
	}
	if sparse && st.Collection().Vectors == 0 {
		return nil, fail.Corruptf(st.Collection().Name,
			"index %q finds neighbors by vectors, and the rows have none", m.Info.Name)
	}
	if sparse {
		return out, out.addVectors(ctx, m)
	}
	out.view.Neighbors, err = modelNeighbors(ctx, st, m.Uses, scale)
	return out, err
}

// addVectors makes the vectors next to the features find neighbors, alone or with these.
func (m *labelModel) addVectors(ctx context.Context, of *kind.Manifest) error {
	source, err := denseNeighbors(ctx, m.st, of.Uses)
	if err != nil {
		return fail.Wrapf(err, "index %q", of.Info.Name)
	}
	source.withFeatures, m.view.Vector = true, vectorOf(source.view)
	var found lcif.NeighborSource = source
	if w := optionsOf(of).VectorWeight; w > 0 {
		found = &lcif.BothNeighbors{Features: m.view.Neighbors, Vectors: source, Weight: w, View: m.view}
	}
	m.view.Neighbors = found
	return nil
}

// Check checks the inverted index.
func (m *labelModel) Check(context.Context) error { return postingsindex.CheckArrays(m.segments) }

// powersOf returns the powers of the sums over all segments, except for those of the first segment's pairs.
func powersOf(m *kind.Manifest, parts []part) (*labels.Powers, error) {
	var more []*labels.FeatureLabels
	for i := range parts[1:] {
		more = append(more, parts[1+i].counts())
	}
	counts, err := parts[0].counts().Extended(more)
	if err != nil {
		return nil, err
	}
	return counts.Powers(storedPower(paramsOf(m)))
}

// before returns an order of labels that breaks ties by name, so that predictions do not depend
// on the model's history. It returns nil if label numbers already have that order.
func (m *labelModel) before(sorted bool) labels.Before {
	if sorted && len(m.more) == 0 {
		return nil
	}
	name := func(l uint32) []byte {
		if n := m.names.Len(); int(l) >= n {
			return []byte(m.more[int(l)-n])
		}
		return m.names.At(int(l))
	}
	return func(a, b uint32) bool { return bytes.Compare(name(a), name(b)) < 0 }
}

// inOrder reports whether names are in byte order.
func inOrder(names codec.Strings) bool {
	for i := 1; i < names.Len(); i++ {
		if bytes.Compare(names.At(i-1), names.At(i)) > 0 {
			return false
		}
	}
	return true
}

// name returns the name of a label.
func (m *labelModel) name(label uint32) string {
	if n := m.names.Len(); int(label) >= n {
		return m.more[int(label)-n]
	}
	return string(m.names.At(int(label)))
}

// grown adds thresholds for the labels that the first segment does not have, if each label has its own
// threshold.
func (m *labelModel) grown(p lcif.Params) lcif.Params {
	t := p.Thresholds
	if len(m.more) == 0 || t == nil || len(t.PerLabel) != m.names.Len() {
		return p
	}
	more := labels.Thresholds{Single: t.Single, KeepTop: t.KeepTop, PerLabel: slices.Clone(t.PerLabel)}
	for range m.more {
		more.PerLabel = append(more.PerLabel, t.Single)
	}
	p.Thresholds = &more
	return p
}

// namedThresholds moves the thresholds of a model's labels to labels in another order; labels
// that the model did not have get the common threshold.
func namedThresholds(t *labels.Thresholds, had, names []string) *labels.Thresholds {
	if t == nil || t.PerLabel == nil || had == nil {
		return t
	}
	return &labels.Thresholds{
		Single: t.Single, KeepTop: t.KeepTop, PerLabel: labels.ByName(t.PerLabel, had, names, t.Single),
	}
}
