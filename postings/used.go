package postings

import "fmt"

// lists returns the number of lists and columns.
func (ix *Index) lists() int {
	if ix.Used != nil {
		return len(ix.Used)
	}
	return ix.Features()
}

// number returns the feature of a list.
func (ix *Index) number(list uint32) uint32 {
	if ix.Used != nil {
		return ix.Used[list]
	}
	return list
}

// validateUsed checks the directory of lists.
func (ix *Index) validateUsed() error {
	for i, f := range ix.Used {
		if i > 0 && f <= ix.Used[i-1] || int(f) >= ix.Features() {
			return fmt.Errorf("%w: list %d is of feature %d", ErrInvalid, i, f)
		}
	}
	return nil
}
