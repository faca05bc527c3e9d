package lcifindex

import (
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// freshRows holds the rows written after a label model was made, in the form that the model
// needs. While none of these rows is relabelled, later generations only add rows, so all
// generations share one freshRows; each uses those that it contains. Deleted rows stay in; each
// generation has its own set of deleted rows.
type freshRows struct {
	mu     sync.Mutex
	once   sync.Once         // guards sorted, which depends on the model only
	sorted bool              // the model's labels are sorted by name
	number map[string]uint32 // of all labels, including those of the model
	names  []string          // labels that the model does not have, in order of first occurrence
	known  []int             // length of names after each row
	sets   [][]uint32
	units  vector.CSR // of sparse rows, weighed as the model weighs them
}

// freshPart is the part of freshRows that one generation uses.
type freshPart struct {
	sorted bool
	names  []string
	sets   [][]uint32
	units  *vector.CSR
}

// freshOf returns the model's fresh rows in this generation. If fresh rows were relabelled, it reads
// all of them again: they may have other labels in other generations.
func (model *labelModel) freshOf(m *kind.Manifest, relabelled bool) (*freshPart, error) {
	st := model.st
	f := st.Shared(m.Object, &freshRows{}).(*freshRows)
	f.once.Do(func() { f.sorted = inOrder(model.names) })
	if relabelled {
		f = &freshRows{sorted: f.sorted}
	}
	n := int(st.Collection().Rows) - m.Info.Rows
	if err := f.read(m, model, n); err != nil {
		return nil, err
	}
	return f.part(n), nil
}

// part returns the first n rows.
func (f *freshRows) part(n int) *freshPart {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &freshPart{sorted: f.sorted, sets: slices.Clip(f.sets[:n])}
	if n > 0 {
		p.names = slices.Clip(f.names[:f.known[n-1]])
	}
	if f.units.Ptr != nil {
		end := f.units.Ptr[n]
		p.units = &vector.CSR{
			Ptr: f.units.Ptr[:n+1], Index: f.units.Index[:end], Value: f.units.Value[:end], Cols: f.units.Cols,
		}
	}
	return p
}

// read reads rows until n are in memory.
func (f *freshRows) read(m *kind.Manifest, model *labelModel, n int) error {
	st, sparse := model.st, model.st.Collection().Sparse
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.number == nil && n > 0 {
		f.number = make(map[string]uint32, model.names.Len())
		for i := range model.names.Len() {
			f.number[string(model.names.At(i))] = uint32(i)
		}
	}
	if sparse && f.units.Ptr == nil {
		f.units = vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: detailOf(m).Features}
	}
	// A decoded run belongs to the snapshot that reads it, so it is not kept in f.
	labelsOf := st.LabelReader()
	for len(f.sets) < n {
		row := uint32(m.Info.Rows + len(f.sets))
		names, err := labelsOf(row)
		if err != nil {
			return err
		}
		var set []uint32
		set, f.names = model.numbered(names, f.number, f.names)
		if sparse {
			f.units.Append(model.unit(st.SparseRow(row)))
			f.units.Cols = detailOf(m).Features
		}
		f.known = append(f.known, len(f.names))
		f.sets = append(f.sets, set)
	}
	return nil
}

// numbered returns the numbers of a row's labels, sorted. Labels that have none yet get the numbers
// after those of the model and of fresh, and are added to number and fresh.
func (m *labelModel) numbered(
	names []string, number map[string]uint32, fresh []string,
) (set []uint32, _ []string) {
	set = make([]uint32, 0, len(names))
	for _, name := range names {
		id, ok := number[name]
		if !ok {
			id = uint32(m.names.Len() + len(fresh))
			number[name] = id
			fresh = append(fresh, name)
		}
		set = append(set, id)
	}
	slices.Sort(set)
	return set, fresh
}

// unit returns a row weighed and scaled to unit length as the model's own rows are.
func (m *labelModel) unit(x vector.Sparse) vector.Sparse {
	if m.idf != nil {
		x = vector.Sparse{Index: x.Index, Value: slices.Clone(x.Value)}
		labelled.Weigh(x, m.idf)
	}
	one := &vector.CSR{Ptr: []uint64{0, uint64(x.Len())}, Index: x.Index, Value: x.Value, Cols: m.view.Features}
	return lcif.UnitRows(one, m.view).Row(0)
}

// grownSets are the label sets of a model's rows and of fresh ones.
type grownSets struct {
	lcif.LabelSets
	fresh  [][]uint32
	labels int
}

// Rows implements lcif.LabelSets.
func (g *grownSets) Rows() int { return g.LabelSets.Rows() + len(g.fresh) }

// Labels implements lcif.LabelSets.
func (g *grownSets) Labels() int { return g.labels }

// Row implements lcif.LabelSets.
func (g *grownSets) Row(i int) []uint32 {
	if n := g.LabelSets.Rows(); i >= n {
		return g.fresh[i-n]
	}
	return g.LabelSets.Row(i)
}

// grow adds the rows written since the model was built as neighbors, with their labels, and gives
// the other rows their present labels.
// Feature–label similarities and thresholds stay those of the build; new labels have no
// similarity and get the common threshold.
func (model *labelModel) grow(m *kind.Manifest, a *Arrays) error {
	relabelled, err := model.st.Relabelled(m.Object)
	if err != nil {
		return err
	}
	f, err := model.freshOf(m, relabelled != nil && int(relabelled.Maximum()) >= m.Info.Rows)
	if err != nil {
		return err
	}
	model.fresh, model.sorted = f.names, f.sorted
	if err := model.relabel(m, relabelled); err != nil {
		return err
	}
	model.view.Before = model.before()
	c := model.st.Collection()
	if int(c.Rows) <= m.Info.Rows && relabelled == nil {
		return nil
	}
	model.view.Labels = &grownSets{model.view.Labels, f.sets, model.names.Len() + len(model.fresh)}
	model.params = model.grown(model.params)
	if c.Sparse && int(c.Rows) > m.Info.Rows {
		model.view.Neighbors = &lcif.GrownNeighbors{
			Base: model.view.Neighbors, First: uint32(m.Info.Rows), Rows: f.units, Deleted: model.st.DeletedSet(),
		}
	}
	return nil
}

// presentSets are the present label sets of a model's rows: those of the model, and those of the rows
// that were relabelled since.
type presentSets struct {
	lcif.LabelSets
	relabelled map[uint32][]uint32
}

// Row implements lcif.LabelSets.
func (p *presentSets) Row(i int) []uint32 {
	if set, ok := p.relabelled[uint32(i)]; ok {
		return set
	}
	return p.LabelSets.Row(i)
}

// relabel gives the rows that the model covers their present labels as neighbors.
func (model *labelModel) relabel(m *kind.Manifest, rows *roaring.Bitmap) error {
	if rows == nil {
		return nil
	}
	number := make(map[string]uint32, model.names.Len())
	for i := range model.names.Len() + len(model.fresh) {
		number[model.name(uint32(i))] = uint32(i)
	}
	sets := map[uint32][]uint32{}
	labelsOf := model.st.LabelReader()
	for it := rows.Iterator(); it.HasNext(); {
		row := it.Next()
		if int(row) >= m.Info.Rows {
			break
		}
		if model.st.Deleted(row) {
			continue
		}
		names, err := labelsOf(row)
		if err != nil {
			return err
		}
		sets[row], model.fresh = model.numbered(names, number, model.fresh)
	}
	model.view.Labels = &presentSets{model.view.Labels, sets}
	return nil
}

// grown adds thresholds for labels written since the build, if each label has its own
// threshold.
func (m *labelModel) grown(p lcif.Params) lcif.Params {
	t := p.Thresholds
	if len(m.fresh) == 0 || t == nil || len(t.PerLabel) != m.names.Len() {
		return p
	}
	more := labels.Thresholds{Single: t.Single, KeepTop: t.KeepTop, PerLabel: slices.Clone(t.PerLabel)}
	for range m.fresh {
		more.PerLabel = append(more.PerLabel, t.Single)
	}
	p.Thresholds = &more
	return p
}

// name returns the name of a label.
func (m *labelModel) name(label uint32) string {
	if n := m.names.Len(); int(label) >= n {
		return m.fresh[int(label)-n]
	}
	return string(m.names.At(int(label)))
}
