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

// Everything is the m of a partition without a DAAT part: plain TAAT.
const Everything = math.MaxInt

// Params select the structures that Build builds.
type Params struct {
	// Partition selects the paper's structure. M is its parameter: 0 puts every row in the DAAT
	// part (M-WAND), Everything puts every row in the TAAT part.
	Partition bool
	M         int
	// Compact selects the compact structure. It is the default when neither is set.
	Compact bool
}

// Index is an inverted index over the rows of a matrix.
type Index struct {
	// Rows holds the rows themselves, for exact scores; nil if Source provides them.
	Rows   *vector.CSR
	Source *Source
	// Unit is the highest value. Norm is an upper bound of the length of every row.
	Unit, Norm float64
	// Used holds the features of the rows, ascending, where they are few compared with the
	// highest feature. List i and column i are then those of feature Used[i], so that the size
	// of the index follows the number of its entries. nil means that every feature has a list.
	Used []uint32
	// Partition is the paper's structure; nil if it was not built.
	Partition *Partition
	// At most one of these is set.
	Weighted *Weighted
	Uniform  *Uniform
}

// Posting is an entry of a list: a row that has the feature, and its value.
type Posting struct {
	Row   uint32
	Value float32
}

// Build indexes rows, which the index keeps and which must not change. The
// result depends on rows and p only. progress, which may be nil, is called
// with growing done and a fixed total.
//
// O(entries), with a factor log(list) for the parts of a Partition that are
// sorted by value. Errors: ErrParams for negative values, malformed rows or
// parameters; the context's.
func Build(ctx context.Context, rows *vector.CSR, p Params, progress func(done, total int)) (*Index,
	error) {
	if p.M < 0 {
		return nil, fmt.Errorf("%w: m is %d", ErrParams, p.M)
	}
	if err := checkRows(rows); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	const total = 4
	step := func(done int) error {
		progress(done, total)
		return ctx.Err()
	}
	if err := step(0); err != nil {
		return nil, err
	}
	ix := &Index{Rows: rows}
	ix.bound()
	lists := rows
	if ix.Used = rows.FewColumns(); ix.Used != nil {
		lists = rows.Renumbered(ix.Used)
	}
	byFeature := lists.Transpose()
	if err := step(1); err != nil {
		return nil, err
	}
	if p.Partition {
		var err error
		if ix.Partition, err = buildPartition(ctx, lists.Rows(), byFeature, p.M); err != nil {
			return nil, err
		}
	}
	if err := step(2); err != nil {
		return nil, err
	}
	if p.Compact || !p.Partition {
		var err error
		if isUniform(rows) {
			ix.Uniform, err = buildUniform(ctx, lists)
		} else {
			ix.Weighted, err = buildWeighted(ctx, lists, byFeature, ix.Unit)
		}
		if err != nil {
			return nil, err
		}
	}
	return ix, step(total)
}

// AddPartition adds the paper's structure with parameter m to an index that holds its rows.
// Errors: ErrParams for a negative m or rows in a Source; the context's.
func (ix *Index) AddPartition(ctx context.Context, m int) error {
	if m < 0 || ix.Rows == nil {
		return fmt.Errorf("%w: a partition with m = %d of an index that holds its rows: %v",
			ErrParams, m, ix.Rows != nil)
	}
	lists := ix.Rows
	if ix.Used != nil {
		lists = lists.Renumbered(ix.Used)
	}
	p, err := buildPartition(ctx, lists.Rows(), lists.Transpose(), m)
	if err == nil {
		ix.Partition = p
	}
	return err
}

// bound sets Unit and Norm.
func (ix *Index) bound() {
	for i := range ix.Rows.Rows() {
		var sum float64
		for e := ix.Rows.Ptr[i]; e < ix.Rows.Ptr[i+1]; e++ {
			v := float64(valueAt(ix.Rows, e))
			ix.Unit = max(ix.Unit, v)
			sum += v * v
		}
		ix.Norm = max(ix.Norm, up(math.Sqrt(sum)))
	}
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

// entries returns the number of entries of the rows.
func (ix *Index) entries() int {
	if ix.Source != nil {
		return ix.Source.entries
	}
	return len(ix.Rows.Index)
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

// Bytes returns the memory of the compact structure, or of the partition if there is none: the
// size of the index on disk without its rows.
func (ix *Index) Bytes() int {
	switch {
	case ix.Weighted != nil:
		w := ix.Weighted
		return w.Blocks.bytes() + w.Columns.bytes() + len(w.Cells) + len(w.Scale) + len(w.BandOf)
	case ix.Uniform != nil:
		u := ix.Uniform
		return u.Blocks.bytes() + u.Columns.bytes() + 8*len(u.Words) + 4*len(u.Order) + 4*len(u.Value)
	case ix.Partition != nil:
		return ix.Partition.Bytes()
	}
	return 0
}
