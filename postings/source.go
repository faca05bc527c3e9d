package postings

import (
	"fmt"
	"math"

	"github.com/anndb/anndb/vector"
)

// Source provides the rows of an index that does not store them. It derives them from the rows
// of a collection as they were written, in runs. A value v of feature f in row i stands for
//
//	float32(float64(w) / Norm[i]),   w = v, or TermWeight(v)·IDF[f] with IDF,
//
// or for BM25.Value(v, Norm[i]), so exact scores need no second copy of the rows.
type Source struct {
	// Norm holds the length of each row before normalisation, as Lengths computes it, or with BM25 the
	// sum of its values; zero for a row that is empty in the index.
	Norm []float64
	// BM25, if not nil, are the parameters that the codes of the index were made with.
	BM25 *BM25
	// IDF holds the weights of the features; nil where values are as written.
	IDF []float32
	// Keep has a bit for each feature that the index keeps; nil means all.
	Keep []uint64

	runs    []vector.CSR
	shift   uint
	first   int
	rows    int
	entries int
	cols    int // number of features of the index
	width   int // number of features of the runs
}

// NewSource takes rows [first, first+rows) of runs. Every run has 1<<shift rows, except that
// the last may have any number. The runs must pass vector.CSR.Validate, have values, and not
// change. Features from cols on, and rows outside the range, are not part of the index.
// O(runs). Errors: ErrInvalid if the range exceeds the runs.
func NewSource(runs []vector.CSR, shift uint, first, rows, cols int) (*Source, error) {
	s := &Source{runs: runs, shift: shift, first: first, rows: rows, cols: cols, width: cols}
	have := 0
	for r := range runs {
		run := &runs[r]
		if n := run.Rows(); r < len(runs)-1 && n != 1<<shift || run.Value == nil {
			return nil, fmt.Errorf("%w: run %d has %d rows", ErrInvalid, r, n)
		}
		lo, hi := min(max(first-have, 0), run.Rows()), min(max(first+rows-have, 0), run.Rows())
		if lo < hi {
			s.entries += int(run.Ptr[hi] - run.Ptr[lo])
		}
		have += run.Rows()
		s.width = max(s.width, run.Cols)
	}
	if first < 0 || rows < 0 || rows > have-first {
		return nil, fmt.Errorf("%w: rows %d to %d of %d", ErrInvalid, first, first+rows, have)
	}
	return s, nil
}

// Row returns a row as it was written.
func (s *Source) Row(i uint32) vector.Sparse {
	at := s.first + int(i)
	r := min(at>>s.shift, len(s.runs)-1)
	return s.runs[r].Row(at - r<<s.shift)
}

// keeps reports whether the index keeps a feature below cols.
func (s *Source) keeps(f uint32) bool { return s.Keep == nil || s.Keep[f/64]>>(f%64)&1 != 0 }

func (s *Source) validate() error {
	if len(s.Norm) != s.rows || s.IDF != nil && len(s.IDF) != s.cols || s.Keep != nil &&
		len(s.Keep) != (s.cols+63)/64 {
		return fmt.Errorf("%w: %d lengths of %d rows, %d weights and %d words for %d features", ErrInvalid,
			len(s.Norm), s.rows, len(s.IDF), len(s.Keep), s.cols)
	}
	if err := checkSizes(s.rows, s.cols, s.entries); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if s.BM25 != nil {
		if err := s.BM25.validate(); err != nil {
			return err
		}
	}
	for i, x := range s.Norm {
		if !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("%w: row %d has the length %g", ErrInvalid, i, x)
		}
	}
	for f, x := range s.IDF {
		if !(x >= 0) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("%w: feature %d has the weight %g", ErrInvalid, f, x)
		}
	}
	return nil
}

// Lengths returns the length of every row over those of its features that keep has, or over all
// if keep is nil: Source.Norm for rows that are already weighted. The sums are those of
// vector.Sparse.Norm over the kept features, bit for bit. O(entries).
func Lengths(rows *vector.CSR, keep []uint64) []float64 {
	out := make([]float64, rows.Rows())
	for i := range out {
		var sum float64
		for e := rows.Ptr[i]; e < rows.Ptr[i+1]; e++ {
			if f := rows.Index[e]; keep == nil || keep[f/64]>>(f%64)&1 != 0 {
				v := float64(valueAt(rows, e))
				sum += v * v
			}
		}
		out[i] = math.Sqrt(sum)
	}
	return out
}

// TermWeight returns the weight of a term's count in a row: 1 + ln count for counts of at least
// 1, the count itself below.
func TermWeight(count float32) float32 {
	if n := uint8(int32(count)); float32(n) == count {
		return termWeights[n]
	}
	return termWeight(count)
}

// termWeight is separate from TermWeight so that the compiler inlines the latter.
//
//go:noinline
func termWeight(count float32) float32 {
	if count < 1 {
		return count
	}
	return 1 + float32(math.Log(float64(count)))
}

// termWeights holds the weights of small integer counts.
var termWeights = func() (t [256]float32) {
	for n := range t {
		t[n] = termWeight(float32(n))
	}
	return t
}()
