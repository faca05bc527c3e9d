package dataset

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/anndb/anndb/dataset/internal/hdf5"
)

// hdf5Sets reads sets of numbers as the files of ann-benchmarks for jaccard have them: an array of the
// numbers of all sets, and one of the size of each set. A set is a record whose features have the value 1.
type hdf5Sets struct {
	src            *source
	sizes, numbers hdf5Numbers
	options        Options
	holds          Schema
}

func newHDF5Sets(s *source, o Options, numbers, sizes *hdf5.Array, distance string) (decoder, error) {
	if o.Kind == Dense {
		return nil, s.bad(-1, 0, fmt.Errorf("%s and %s are sets, no vectors", numbers.Name, sizes.Name))
	}
	d := &hdf5Sets{src: s, options: o, holds: Schema{
		Kind: Sparse, Base: BaseZero, Records: int64(sizes.Shape[0]), Member: numbers.Name, Distance: distance,
	}}
	var err error
	if d.numbers, err = hdf5NumbersOf(s, numbers); err == nil {
		d.sizes, err = hdf5NumbersOf(s, sizes)
	}
	return d, err
}

func (d *hdf5Sets) schema() Schema { return d.holds }

func (d *hdf5Sets) next(rec *Record, n int64) error {
	size, err := d.sizes.next()
	if err == io.EOF {
		if _, err := d.numbers.next(); err != io.EOF {
			return d.src.bad(-1, 0, errors.New("more numbers than the sets have"))
		}
		return io.EOF
	}
	if err != nil {
		return d.src.hdf5Error(n, err)
	}
	if size < 0 || size > int64(d.options.MaxDim) {
		return d.src.bad(n, -1, fmt.Errorf("a set of %d numbers, want at most %d", size, d.options.MaxDim))
	}
	var fault error
	for range size {
		number, err := d.numbers.next()
		if err != nil {
			return d.src.hdf5Error(n, err)
		}
		if number < 0 || number >= int64(d.options.MaxFeatures) {
			fault = fmt.Errorf("the set has the number %d, want 0 to below %d", number, d.options.MaxFeatures)
			continue
		}
		rec.Features.Index = append(rec.Features.Index, uint32(number))
		rec.Features.Value = append(rec.Features.Value, 1)
	}
	if fault == nil {
		fault = tidy(&rec.Features, 0)
	}
	if fault != nil {
		return d.src.badRecord(n, -1, fault)
	}
	return nil
}

// hdf5Numbers reads an array of integers in one dimension.
type hdf5Numbers struct {
	rows *hdf5.Rows
	elem elem
}

func hdf5NumbersOf(s *source, a *hdf5.Array) (hdf5Numbers, error) {
	rows, err := a.Rows()
	if err != nil {
		return hdf5Numbers{}, s.hdf5Error(-1, err)
	}
	h := hdf5Numbers{rows, hdf5Elem(a.Type)}
	if len(a.Shape) != 1 || !h.elem.integer() || a.Shape[0] > math.MaxInt64 {
		return h, s.bad(-1, 0, fmt.Errorf("%v: sets are integers in one dimension", a))
	}
	return h, nil
}

// next returns the next number; io.EOF after the last one.
func (h hdf5Numbers) next() (int64, error) {
	raw, err := h.rows.Next()
	if err != nil {
		return 0, err
	}
	return h.elem.int(raw, 0), nil
}
