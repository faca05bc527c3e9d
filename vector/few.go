package vector

import "slices"

// What is made for each column of a matrix costs a few bytes even for a column
// without entries. Columns may be numbered up to 2^32, by hashing say, while rows
// have a few thousand of them.
const (
	// manyColumns is up to how many columns none is worth leaving out.
	manyColumns = 1 << 16
	// usedShare is the least share of the columns, one in so many, that entries may
	// be of for none to be left out.
	usedShare = 8
)

// FewColumns is the columns that rows have, ascending, if they are so few that
// nothing should be made for the others, else nil: empty, but not nil, where
// there is no entry. O(entries·log entries) if they are.
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

// Renumbered is the matrix with the places of its columns in a list of all that
// rows have, ascending, in place of their numbers. Rows and values are shared.
// O(entries·log columns).
func (m *CSR) Renumbered(used []uint32) *CSR {
	out := *m
	out.Index, out.Cols = make([]uint32, len(m.Index)), len(used)
	for e, f := range m.Index {
		at, _ := slices.BinarySearch(used, f)
		out.Index[e] = uint32(at)
	}
	return &out
}
