package vector

import "slices"

// A structure with an element for each column costs a few bytes even for a column
// without entries. Columns may be numbered up to 2^32, for example by hashing, while
// rows use only a few thousand of them.
const (
	// manyColumns is the largest number of columns for which FewColumns returns nil
	// without looking at the entries.
	manyColumns = 1 << 16
	// usedShare is the number of columns per entry above which FewColumns lists the
	// columns in use.
	usedShare = 8
)

// FewColumns returns the columns that have entries, ascending, if they are so few
// that data structures should leave out the others. Otherwise it returns nil. For a
// matrix without entries the result may be empty but not nil. O(entries·log entries)
// if it lists columns, else O(1).
func (m *CSR) FewColumns() []uint32 {
	if m.Cols <= manyColumns || m.Cols/usedShare <= len(m.Index) {
		return nil
	}
	used := slices.Clone(m.Index)
	slices.Sort(used)
	used = slices.Clip(slices.Compact(used))
	if used == nil {
		used = []uint32{}
	}
	return used
}

// Renumbered returns the matrix with every column number replaced by its position in
// used, the ascending list of all columns with entries. Row offsets and values are
// shared. O(entries·log columns).
func (m *CSR) Renumbered(used []uint32) *CSR {
	out := *m
	out.Index, out.Cols = make([]uint32, len(m.Index)), len(used)
	for e, f := range m.Index {
		at, _ := slices.BinarySearch(used, f)
		out.Index[e] = uint32(at)
	}
	return &out
}
