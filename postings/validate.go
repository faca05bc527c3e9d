package postings

import (
	"fmt"
	"math"
	"math/bits"
)

// Validate checks everything that a search relies on to stay inside the arrays: an index that
// passes never makes a search panic or read outside them, whatever its contents. It does not
// check that the structures agree with the rows, which is the task of checksums, nor the runs
// of a Source, which are assumed to be valid. O(entries). Errors: ErrInvalid.
func (ix *Index) Validate() error {
	switch {
	case (ix.Rows == nil) == (ix.Source == nil):
		return fmt.Errorf("%w: no rows, or two sources of them", ErrInvalid)
	case ix.Source != nil:
		if err := ix.Source.validate(); err != nil {
			return err
		}
	default:
		if err := checkRows(ix.Rows); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	if ix.Weighted != nil && ix.Uniform != nil {
		return fmt.Errorf("%w: both compact structures", ErrInvalid)
	}
	for _, x := range [...]float64{ix.Unit, ix.Norm} {
		if !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("%w: a bound is %g", ErrInvalid, x)
		}
	}
	if err := ix.validateUsed(); err != nil {
		return err
	}
	n, features := ix.Len(), ix.lists()
	if p := ix.Partition; p != nil {
		if err := p.validate(n, features); err != nil {
			return err
		}
	}
	if w := ix.Weighted; w != nil {
		if err := w.validate(n, features); err != nil {
			return err
		}
	}
	if u := ix.Uniform; u != nil {
		return u.validate(n, features)
	}
	return nil
}

// validate checks lists for features of rows below limit.
func (b *Blocks) validate(limit, features int) error {
	wide := limit > windowRows
	if len(b.Ptr) != features+1 || b.Ptr[0] != 0 {
		return fmt.Errorf("%w: %d offsets for the lists of %d features", ErrInvalid, len(b.Ptr), features)
	}
	for j := range features {
		if b.Ptr[j] > b.Ptr[j+1] {
			return fmt.Errorf("%w: list %d ends before it starts", ErrInvalid, j)
		}
	}
	if !wide {
		if int(b.Ptr[features]) != len(b.Low) {
			return fmt.Errorf("%w: lists span %d of %d entries", ErrInvalid, b.Ptr[features], len(b.Low))
		}
		return checkLow(b.Low, limit)
	}
	n := int(b.Ptr[features])
	if len(b.Key) != n || len(b.Start) != n+1 || b.Start[0] != 0 || int(b.Start[n]) != len(b.Low) {
		return fmt.Errorf("%w: %d keys and %d starts for %d containers", ErrInvalid, len(b.Key),
			len(b.Start), n)
	}
	for c := range n {
		if b.Start[c] > b.Start[c+1] {
			return fmt.Errorf("%w: container %d ends before it starts", ErrInvalid, c)
		}
	}
	for c, key := range b.Key {
		room := limit - int(key)<<windowBits
		if room <= 0 {
			return fmt.Errorf("%w: container %d is of window %d of %d rows", ErrInvalid, c, key, limit)
		}
		if err := checkLow(b.Low[b.Start[c]:b.Start[c+1]], room); err != nil {
			return err
		}
	}
	return nil
}

func checkLow(low []uint16, limit int) error {
	for i, r := range low {
		if int(r) >= limit {
			return fmt.Errorf("%w: entry %d is of row %d of %d", ErrInvalid, i, r, limit)
		}
	}
	return nil
}

// validate checks the numbers of columns; count is the required number.
func (c *Columns) validate(features, count int) error {
	words := (features + 63) / 64
	if len(c.Has) != words || len(c.Rank) != words {
		return fmt.Errorf("%w: %d and %d words of columns for %d features", ErrInvalid, len(c.Has),
			len(c.Rank), features)
	}
	n := 0
	for i, word := range c.Has {
		if int(c.Rank[i]) != n {
			return fmt.Errorf("%w: word %d has rank %d, not %d", ErrInvalid, i, c.Rank[i], n)
		}
		n += bits.OnesCount64(word)
	}
	if n != count {
		return fmt.Errorf("%w: %d columns stored for %d", ErrInvalid, count, n)
	}
	return nil
}

func (w *Weighted) validate(rows, features int) error {
	if w.Stride != roundUp(rows, columnRows) {
		return fmt.Errorf("%w: columns of %d cells for %d rows", ErrInvalid, w.Stride, rows)
	}
	count, err := columnsIn(len(w.Cells), w.Stride)
	if err != nil {
		return err
	}
	if count -= 1 + bandCount; rows > 0 && count != len(w.BandOf) {
		return fmt.Errorf("%w: %d columns for features with %d bands", ErrInvalid, count, len(w.BandOf))
	}
	for c, b := range w.BandOf {
		if b >= bandCount {
			return fmt.Errorf("%w: column %d is of band %d", ErrInvalid, c, b)
		}
	}
	if err := w.Columns.validate(features, len(w.BandOf)); err != nil {
		return err
	}
	if err := w.Blocks.validate(rows, features); err != nil {
		return err
	}
	if len(w.Code) != len(w.Low) || len(w.Scale) != features {
		return fmt.Errorf("%w: %d codes for %d entries, %d scales for %d features", ErrInvalid,
			len(w.Code), len(w.Low), len(w.Scale), features)
	}
	for _, x := range append(w.Bands[:], w.Unit, w.Residual) {
		if !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("%w: a bound is %g", ErrInvalid, x)
		}
	}
	return nil
}

// columnsIn returns the number of columns of stride elements in n elements.
func columnsIn(n, stride int) (int, error) {
	if stride == 0 {
		if n != 0 {
			return 0, fmt.Errorf("%w: %d elements in columns of none", ErrInvalid, n)
		}
		return 0, nil
	}
	if n%stride != 0 {
		return 0, fmt.Errorf("%w: %d elements in columns of %d", ErrInvalid, n, stride)
	}
	return n / stride, nil
}

func (u *Uniform) validate(rows, features int) error {
	strips := roundUp(rows, stripRows) / stripRows
	if u.Stride != strips*stripWords || len(u.Value) != rows || len(u.Order) != rows {
		return fmt.Errorf("%w: %d positions with %d values, bitmaps of %d words for %d rows", ErrInvalid,
			len(u.Order), len(u.Value), u.Stride, rows)
	}
	for at, row := range u.Order {
		if int(row) >= rows {
			return fmt.Errorf("%w: position %d is row %d of %d", ErrInvalid, at, row, rows)
		}
	}
	for i, v := range u.Value {
		if !(v >= 0) || math.IsInf(float64(v), 0) || i > 0 && v > u.Value[i-1] {
			return fmt.Errorf("%w: the value of position %d is %g", ErrInvalid, i, v)
		}
	}
	count, err := columnsIn(len(u.Words), u.Stride)
	if err != nil {
		return err
	}
	if err := u.Columns.validate(features, count); err != nil {
		return err
	}
	return u.Blocks.validate(rows, features)
}
