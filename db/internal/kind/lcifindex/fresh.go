package lcifindex

import (
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// Rows that were written after the segments are neighbors at once, with their labels, and relabelled
// rows have their present labels. Sums do not count either until maintenance; labels that only these
// rows have have no similarity and the common threshold.

// shared is what all generations of a model have in common.
type shared struct {
	mu     sync.Mutex
	powers *labels.Powers // see powersOf
	sorted bool           // the labels of the first segment are sorted by name
	rowsOf []int          // see labelModel
	// version is of the segments in this process: other processes have others, also of equal segments.
	version uint64
	// more are the labels after those of the first segment: of the other segments, then others in the order
	// in which any generation met them. number has the numbers of all labels, once there is any to look up.
	more   []string
	number map[string]uint32
	fresh  freshRows
}

// freshRows are the rows after the segments, in the form that the model needs. While none of them is
// relabelled, later generations only add rows, so all generations share them; each uses those that it
// contains. Deleted rows stay in.
type freshRows struct {
	sets  [][]uint32
	units vector.CSR // of sparse rows
}

// add adds what is not in the arrays of a single segment: the sums of later segments, and the rows and labels
// that were written since.
func (m *labelModel) add(of *kind.Manifest, parts []part) error {
	relabelled, err := m.st.Relabelled(of.Object)
	if err != nil {
		return err
	}
	s := m.st.Shared(of.Object, &shared{}).(*shared)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.powers == nil {
		powers, err := powersOf(of, parts)
		if err != nil {
			return fail.Corruptf(m.st.Collection().Name, "index %q: %w", of.Info.Name, err)
		}
		s.powers, s.sorted, s.version = powers, inOrder(m.names), rand.Uint64()
		for i := range parts[1:] {
			s.more = append(s.more, parts[1+i].names.All()...)
		}
		s.rowsOf = make([]int, len(parts[len(parts)-1].rows))
		for i := range parts {
			for l, n := range parts[i].rows {
				s.rowsOf[l] += int(n)
			}
		}
	}
	m.rowsOf, m.version = s.rowsOf, s.version
	powers := *s.powers
	powers.Parts = []labels.Pairs{parts[0].pairs}
	if changed := s.powers.Parts[0]; len(changed.Label) > 0 {
		powers.Parts = append(powers.Parts, changed)
	}
	m.view.Powers = &powers
	sets := &labelSets{parts: parts, covered: of.Info.Rows}
	if err := m.addRows(s, sets, relabelled); err != nil {
		return err
	}
	m.more = slices.Clip(s.more)
	sets.labels = m.names.Len() + len(m.more)
	m.view.Labels, m.view.Before, m.params = sets, m.before(s.sorted), m.grown(m.params)
	return nil
}

// addRows adds fresh rows to the label sets and, if they are sparse, as neighbors, and the present labels of
// relabelled rows.
func (m *labelModel) addRows(s *shared, sets *labelSets, relabelled *roaring.Bitmap) error {
	n := int(m.st.Collection().Rows) - sets.covered
	f := &s.fresh
	if relabelled != nil && int(relabelled.Maximum()) >= sets.covered {
		f = &freshRows{} // fresh rows may have other labels in other generations
	}
	if err := m.read(s, f, sets.covered, n); err != nil {
		return err
	}
	sets.fresh = slices.Clip(f.sets[:n])
	if m.st.Collection().Sparse {
		x := &lcif.PostingsNeighbors{Segments: m.segments, First: uint32(sets.covered)}
		if n > 0 {
			end := f.units.Ptr[n]
			x.Deleted = m.rows.Deleted
			x.Fresh = &vector.CSR{
				Ptr: f.units.Ptr[:n+1], Index: f.units.Index[:end], Value: f.units.Value[:end], Cols: m.view.Features,
			}
		}
		m.view.Neighbors = x
	}
	if relabelled == nil {
		return nil
	}
	sets.relabelled = map[uint32][]uint32{}
	labelsOf := m.st.LabelReader()
	for it := relabelled.Iterator(); it.HasNext(); {
		row := it.Next()
		if int(row) >= sets.covered {
			break
		}
		if m.rows.IsDeleted(row) {
			continue
		}
		names, err := labelsOf(row)
		if err != nil {
			return err
		}
		sets.relabelled[row] = m.numbered(s, names)
	}
	return nil
}

// read reads fresh rows until n are in memory.
func (m *labelModel) read(s *shared, f *freshRows, covered, n int) error {
	if f.units.Ptr == nil {
		f.units = vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	}
	labelsOf := m.st.LabelReader()
	for len(f.sets) < n {
		row := uint32(covered + len(f.sets))
		names, err := labelsOf(row)
		if err != nil {
			return err
		}
		if m.st.Collection().Sparse {
			x := m.row(row)
			one := &vector.CSR{Ptr: []uint64{0, uint64(x.Len())}, Index: x.Index, Value: x.Value}
			f.units.Append(lcif.UnitRows(one, m.view).Row(0))
		}
		f.sets = append(f.sets, m.numbered(s, names))
	}
	return nil
}

// numbered returns the numbers of labels, ascending. A label that has none yet gets the next one.
func (m *labelModel) numbered(s *shared, names []string) []uint32 {
	if s.number == nil {
		s.number = make(map[string]uint32, m.names.Len()+len(s.more))
		for i, name := range append(m.names.All(), s.more...) {
			s.number[name] = uint32(i)
		}
	}
	set := make([]uint32, 0, len(names))
	for _, name := range names {
		id, ok := s.number[name]
		if !ok {
			id = uint32(m.names.Len() + len(s.more))
			s.number[name] = id
			s.more = append(s.more, name)
		}
		set = append(set, id)
	}
	slices.Sort(set)
	return set
}
