package lcifindex

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// labelModel is a stored label model in one generation.
type labelModel struct {
	st       kind.Source
	segments []postings.Segment // of sparse rows
	view     *lcif.View
	names    codec.Strings
	sorted   bool     // names are in byte order
	fresh    []string // labels that occur only in rows written since the build
	idf      []float32
	scale    *lcif.Scaling
	params   lcif.Params // with thresholds for fresh labels
}

// Arrays are the arrays of a label model, in the map. Pairs in the patch replace those in
// the base.
type Arrays struct {
	Names          codec.Strings
	sets           *segmentSets
	Base, Patch    *labels.Pairs // powers
	BaseSum        []int64
	PatchSum       []int64
	Square         []uint64
	Rows           []uint32
	Feature, Label []float64
	Keep           []uint64
	IDF            []float32
	deletedRows    *roaring.Bitmap // rows that are deleted and no longer counted
}

// segmentSets are the label sets of a model's rows, by segment.
type segmentSets struct {
	first      []int
	sets       []*vector.CSR
	relabelled relabelledSets
	labels     int
}

// Rows implements lcif.LabelSets.
func (s *segmentSets) Rows() int {
	last := len(s.sets) - 1
	return s.first[last] + s.sets[last].Rows()
}

// Labels implements lcif.LabelSets.
func (s *segmentSets) Labels() int { return s.labels }

// Row implements lcif.LabelSets.
func (s *segmentSets) Row(i int) []uint32 {
	if set, ok := s.relabelled.row(i); ok {
		return set
	}
	g := 0
	if len(s.first) > 1 {
		g = sort.SearchInts(s.first, i+1) - 1
	}
	return lcif.LabelRows{CSR: s.sets[g]}.Row(i - s.first[g])
}

// baseObject returns the object that stores the pairs of a label model.
func (l *detail) baseObject(own uint64) uint64 {
	if l.Base != 0 {
		return l.Base
	}
	return own
}

// storedPower returns the exponent of the powers that a label model with these parameters
// stores.
func storedPower(p *lcif.Params) float64 {
	if p.Beta == 0 {
		return 1
	}
	return labels.StoredPower(p.Beta)
}

// ReadArrays maps the arrays of a label model and checks that they are consistent. Blocks never
// change, so each object is checked once per process.
func ReadArrays(ctx context.Context, st kind.Source, m *kind.Manifest) (*Arrays, error) {
	l := detailOf(m)
	r := st.Arrays(ctx, m.Info.Name, m.Object)
	a := &Arrays{sets: &segmentSets{labels: l.Labels}}
	head := r.Section(codec.KindLabelMatrix)
	a.Names = head.ReadNames(arrayLabelNames, l.Labels)
	a.deletedRows = head.ReadSet(arrayLabelDeleted, m.Info.Rows)
	again := &a.sets.relabelled
	again.sets.Cols = l.Labels
	again.arrays(head)
	if len(again.rows) > 0 {
		r.Need(len(again.sets.Ptr) == len(again.rows)+1, "labels of relabelled rows")
		r.Once(kind.RoleRelabelled, fmt.Sprint(m.Info.Rows), l.Labels,
			func() error { return again.validate(m.Info.Rows) })
	}
	for _, g := range l.Segments {
		in := r.Of(g.Object)
		sets := &vector.CSR{Cols: l.Labels}
		labelSetArrays(in.Section(codec.KindLabelMatrix), sets)
		in.Need(len(sets.Ptr) == g.Rows+1, "labels of rows")
		in.Once(kind.RoleLabelSets, fmt.Sprint(g.Rows), l.Labels, checked("labels of rows", sets))
		a.sets.first, a.sets.sets = append(a.sets.first, g.First), append(a.sets.sets, sets)
		r.Err = in.Err
	}
	a.readPairs(r, m)
	return a, r.Err
}

// readPairs maps the arrays of feature–label similarities.
func (a *Arrays) readPairs(r *arrays.Reader, m *kind.Manifest) {
	l := detailOf(m)
	in := r.Of(l.baseObject(m.Object))
	stored := in.Section(codec.KindSimilarity)
	pairs := func(n pairNumbers) (*labels.Pairs, []int64) {
		m, sums := new(labels.Pairs), []int64(nil)
		n.arrays(stored, m, &sums)
		in.Need(len(sums) == len(m.Label), "sums of pairs")
		return m, sums
	}
	a.Base, a.BaseSum = pairs(basePairs)
	in.Once(kind.RoleLabelPairs, "", l.Labels, validPairs("pairs", a.Base, l.Labels))
	if in.Object != m.Object {
		in = in.Of(m.Object)
		stored = in.Section(codec.KindSimilarity)
	}
	a.onceArrays(stored)
	in.Need(a.Keep == nil || len(a.Keep) == (l.Features+63)/64, "features kept")
	in.Need(len(a.IDF) <= l.Features, "weights of features")
	in.Need(a.Base.Features() <= l.Features, "features")
	a.Patch, a.PatchSum = pairs(patchPairs)
	if a.Patch.Ptr == nil {
		a.Patch.Ptr, a.Patch.Start = make([]uint64, 1), make([]uint64, 1)
	}
	in.Need(len(a.Square) == 2*l.Features && len(a.Feature) == l.Features && a.Patch.Features() <= l.Features,
		"lengths of features")
	in.Need(len(a.Rows) == l.Labels && len(a.Label) == l.Labels, "rows of labels")
	in.Once(kind.RoleLabelHead, fmt.Sprint(l.Features), l.Labels, func() error {
		if err := validPairs("pairs changed", a.Patch, l.Labels)(); err != nil {
			return err
		}
		for _, x := range a.IDF {
			if !(x >= 0) || math.IsInf(float64(x), 1) {
				return fmt.Errorf("a feature has the weight %g", x)
			}
		}
		for _, x := range slices.Concat(a.Feature, a.Label) {
			if !(x >= 0) || math.IsInf(x, 1) {
				return fmt.Errorf("a feature or label has the length %g", x)
			}
		}
		return nil
	})
	r.Err = in.Err
}

// checked returns a function that validates a matrix.
func checked(what string, m *vector.CSR) func() error {
	return func() error {
		if err := m.Validate(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
}

// validPairs returns a function that validates pairs.
func validPairs(what string, p *labels.Pairs, l int) func() error {
	return func() error {
		if err := p.Validate(l); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
}

// Open opens a label model from its arrays, and adds the rows written since.
func (Kind) Open(ctx context.Context, st kind.Source, m *kind.Manifest) (kind.Opened, error) {
	l, sparse := detailOf(m), st.Collection().Sparse
	if (l.Segments[0].Index != nil) != sparse {
		return nil, st.Corrupt("index %q: its inverted index does not fit the collection", m.Info.Name)
	}
	if s := l.Scale; s != nil && (sparse || !s.Valid(st.Collection().Dim)) {
		return nil, st.Corrupt(
			"index %q: the scale of its columns does not fit the collection", m.Info.Name)
	}
	if err := st.Load(ctx); err != nil {
		return nil, err
	}
	a, err := ReadArrays(ctx, st, m)
	if err != nil {
		return nil, err
	}
	out := &labelModel{st: st, names: a.Names, idf: a.IDF, scale: l.Scale, params: *paramsOf(m)}
	out.view = &lcif.View{Features: l.Features, Labels: a.sets}
	if len(a.sets.sets) == 1 && len(a.sets.relabelled.rows) == 0 {
		out.view.Labels = lcif.LabelRows{CSR: a.sets.sets[0]}
	}
	if sparse {
		w := &postingsindex.Weighing{IDF: a.IDF, Keep: a.Keep}
		out.segments, err = loadSegments(ctx, st, m, w)
	}
	if err == nil {
		out.view.Neighbors, err = out.neighbors(ctx, m)
	}
	if err != nil {
		return nil, err
	}
	out.view.Keep, out.view.Row = a.Keep, out.row
	out.view.Powers = &labels.Powers{
		Beta: storedPower(paramsOf(m)), Parts: []labels.Pairs{*a.Base}, Feature: a.Feature, Label: a.Label,
	}
	if len(a.Patch.Label) > 0 {
		out.view.Powers.Parts = append(out.view.Powers.Parts, *a.Patch)
	}
	return out, out.grow(m, a)
}

// Check checks the model and its inverted index.
func (m *labelModel) Check(context.Context) error {
	if err := m.view.Validate(); err != nil {
		return err
	}
	return postingsindex.CheckArrays(m.segments)
}

// neighbors returns the source of the model's neighbors.
func (m *labelModel) neighbors(ctx context.Context, of *kind.Manifest) (lcif.NeighborSource, error) {
	if !m.st.Collection().Sparse {
		if err := checkCycle(m.st, of); err != nil {
			return nil, err
		}
		return modelNeighbors(ctx, m.st, detailOf(of).Neighbors, detailOf(of).Scale)
	}
	if len(m.segments) == 1 {
		return &lcif.PostingsNeighbors{
			Index: m.segments[0].Index, Params: postings.SearchParams{Deleted: m.st.DeletedSet()},
		}, nil
	}
	return &lcif.SegmentNeighbors{Segments: m.segments}, nil
}

// before returns an order of labels that breaks ties by name, so that predictions do not depend
// on the model's history. It returns nil if label numbers already have that order.
func (m *labelModel) before() labels.Before {
	if m.sorted && len(m.fresh) == 0 {
		return nil
	}
	name := func(l uint32) []byte {
		if n := m.names.Len(); int(l) >= n {
			return []byte(m.fresh[int(l)-n])
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

// namedThresholds moves the thresholds of a model's labels to labels in another order; labels
// that the model did not have get the common threshold.
func namedThresholds(t *labels.Thresholds, had, names []string) *labels.Thresholds {
	if t == nil || t.PerLabel == nil || had == nil {
		return t
	}
	limit := make(map[string]float64, len(had))
	for i, name := range had[:min(len(had), len(t.PerLabel))] {
		limit[name] = t.PerLabel[i]
	}
	out := &labels.Thresholds{Single: t.Single, KeepTop: t.KeepTop}
	for _, name := range names {
		x, ok := limit[name]
		if !ok {
			x = t.Single
		}
		out.PerLabel = append(out.PerLabel, x)
	}
	return out
}
