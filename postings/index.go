package postings

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/anndb/anndb/vector"
)

// Errors of the package; they are wrapped with the details.
var (
	// ErrParams is returned for parameters, rows or queries that cannot be used.
	ErrParams = errors.New("postings: bad parameters")
	// ErrInvalid is returned by Validate for arrays that contradict each other.
	ErrInvalid = errors.New("postings: invalid structure")
)

// Index is an inverted index over the rows of a matrix.
type Index struct {
	// Rows holds the rows themselves, for exact scores; nil if Source provides them.
	Rows   *vector.CSR
	Source *Source
	// Norm is an upper bound of the length of every row.
	Norm float64
	Lists
}

// cancelEvery is the number of features between a build's checks of its context.
const cancelEvery = 1 << 12

// Build indexes rows, which the index keeps and which must not change. The result depends on rows
// only. progress, which may be nil, is called with growing done and a fixed total.
//
// O(entries). Errors: ErrParams for negative values or malformed rows; the context's.
func Build(ctx context.Context, rows *vector.CSR, progress func(done, total int)) (*Index, error) {
	return buildIndex(ctx, rows, false, progress)
}

// BuildCoded is Build for values that change with the mean length of BM25: each has a code, even if all
// values of a row are equal.
func BuildCoded(ctx context.Context, rows *vector.CSR, progress func(done, total int)) (*Index, error) {
	return buildIndex(ctx, rows, true, progress)
}

func buildIndex(ctx context.Context, rows *vector.CSR, coded bool, progress func(done,
	total int)) (*Index, error) {
	if err := checkRows(rows); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	ix := &Index{Rows: rows, Norm: longest(rows)}
	used := rows.FewColumns()
	byFeature := rows
	if used != nil {
		byFeature = rows.Renumbered(used)
	}
	byFeature = byFeature.Transpose()
	var values []float32
	if !coded {
		values = rowValues(rows)
	}
	ix.Lists = newLists(len(rows.Index), values)
	ix.Ratio = valueRatios(ix.Value, ix.Norm)
	var list []posting
	for j := range byFeature.Rows() {
		if j%cancelEvery == 0 {
			progress(j, byFeature.Rows())
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
		feature := uint32(j)
		if used != nil {
			feature = used[j]
		}
		list = appendColumn(list[:0], byFeature, j)
		ix.add(feature, list, rows.Rows())
	}
	ix.end()
	progress(byFeature.Rows(), byFeature.Rows())
	if uint64(len(ix.Sets)) > math.MaxUint32 {
		return nil, fmt.Errorf("%w: the sets of rows have %d words, at most %d are possible", ErrParams,
			len(ix.Sets), uint32(math.MaxUint32))
	}
	return ix, ctx.Err()
}

// longest returns an upper bound of the length of every row.
func longest(rows *vector.CSR) (norm float64) {
	for i := range rows.Rows() {
		var sum float64
		for e := rows.Ptr[i]; e < rows.Ptr[i+1]; e++ {
			v := float64(valueAt(rows, e))
			sum += v * v
		}
		norm = max(norm, up(math.Sqrt(sum)))
	}
	return norm
}

// rowValues returns the value of each row; nil if the values above zero of any row differ.
func rowValues(rows *vector.CSR) []float32 {
	value := make([]float32, rows.Rows())
	for i := range value {
		for e := rows.Ptr[i]; e < rows.Ptr[i+1]; e++ {
			v := valueAt(rows, e)
			if v > 0 && value[i] > 0 && v != value[i] {
				return nil
			}
			value[i] = max(value[i], v)
		}
	}
	return value
}

// valueRatios returns Lists.Ratio.
func valueRatios(value []float32, norm float64) []uint16 {
	ratio := make([]uint16, len(value))
	for i, v := range value {
		if v > 0 {
			ratio[i] = uint16(min(math.Ceil(up(float64(v)/norm*(1<<16))), maxEstimate))
		}
	}
	return ratio
}

// posting is an entry of a list: a row that has the feature, and its value.
type posting struct {
	row   uint32
	value float32
}

// appendColumn appends the postings of feature j, ascending by row. It omits zero entries,
// which add nothing to a score.
func appendColumn(dst []posting, byFeature *vector.CSR, j int) []posting {
	for e := byFeature.Ptr[j]; e < byFeature.Ptr[j+1]; e++ {
		if v := valueAt(byFeature, e); v > 0 {
			dst = append(dst, posting{byFeature.Index[e], v})
		}
	}
	return dst
}

// Len returns the number of rows.
func (ix *Index) Len() int {
	if ix.Source != nil {
		return ix.Source.rows
	}
	return ix.Rows.Rows()
}

// Features returns one more than the highest feature the index may know.
func (ix *Index) Features() int {
	if ix.Source != nil {
		return ix.Source.cols
	}
	return ix.Rows.Cols
}

// Validate checks everything that a search relies on to stay inside the arrays: an index that
// passes never makes a search panic or read outside them, whatever its contents. It does not
// check that the lists agree with the rows, which is the task of checksums, nor the runs
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
	if ix.Source != nil && ix.Source.BM25 != nil && !ix.hasCodes() {
		return fmt.Errorf("%w: BM25 without codes", ErrInvalid)
	}
	if !(ix.Norm >= 0) || math.IsInf(ix.Norm, 0) {
		return fmt.Errorf("%w: the longest row has the length %g", ErrInvalid, ix.Norm)
	}
	return ix.Lists.validate(ix.Len(), ix.Features())
}

// checkRows returns an error for a matrix that cannot be indexed.
func checkRows(rows *vector.CSR) error {
	if rows == nil {
		return fmt.Errorf("%w: no rows", ErrParams)
	}
	if err := rows.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrParams, err)
	}
	if err := checkSizes(rows.Rows(), rows.Cols, len(rows.Index)); err != nil {
		return err
	}
	for i, v := range rows.Value {
		if v < 0 {
			return fmt.Errorf("%w: entry %d is %g", ErrParams, i, v)
		}
	}
	return nil
}

// checkSizes returns an error if there are too many rows, features or entries.
func checkSizes(rows, features, entries int) error {
	if uint64(rows) > math.MaxUint32 || uint64(features) > math.MaxUint32 ||
		uint64(entries) > math.MaxUint32 {
		return fmt.Errorf("%w: %d rows, %d features and %d entries, of each at most %d", ErrParams,
			rows, features, entries, uint32(math.MaxUint32))
	}
	return nil
}

// valueAt returns the value of entry e of a matrix.
func valueAt(m *vector.CSR, e uint64) float32 {
	if m.Value == nil {
		return 1
	}
	return m.Value[e]
}
