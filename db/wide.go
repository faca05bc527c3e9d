package db

import "fmt"

// maxSpread is up to how many features may be far more than the entries of all
// rows before what is made for each of them is refused.
const maxSpread = 1 << 22

// checkSpread refuses rows whose features are numbered so sparsely that arrays by
// feature, as label models and weights have them, would be far larger than the
// rows.
func checkSpread(coll string, features, entries int) error {
	if features <= maxSpread || features/8 <= entries {
		return nil
	}
	return fmt.Errorf("%w: collection %q: features are numbered up to %d, but all rows have %d entries: "+
		"weights and label models hold numbers for each feature; number the features without gaps, or give them names",
		ErrOption, coll, features-1, entries)
}

// entries is how many entries the rows have, deleted ones included.
func (s *sparseSet) entries() int {
	n := len(s.tail.Index)
	for i := range s.chunks {
		n += len(s.chunks[i].Index)
	}
	return n
}
