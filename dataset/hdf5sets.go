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
	src     *source
	sizes   hdf5Numbers
	members hdf5Numbers
	limit   int64 // for numbers
	maxSize int64
	holds   Schema
}

func newHDF5Sets(s *source, o Options, members, sizes *hdf5.Array, distance string) (decoder, error) {
	d := &hdf5Sets{src: s, limit: int64(o.MaxFeatures), maxSize: int64(o.MaxDim)}
	for _, part := range []struct {
		array *hdf5.Array
		to    *hdf5Numbers
	}{{members, &d.members}, {sizes, &d.sizes}} {
		rows, err := part.array.Rows()
		if err != nil {
			return nil, s.hdf5Error(-1, err)
		}
		*part.to = hdf5Numbers{rows, hdf5Elem(part.array.Type)}
		if len(part.array.Shape) != 1 || !part.to.elem.integer() || part.array.Shape[0] > math.MaxInt64 {
			return nil, s.bad(-1, 0, errors.New(part.array.String()+": sets are integers in one dimension"))
		}
	}
	if o.Kind == Dense {
		return nil, s.bad(-1, 0, fmt.Errorf("%s and %s are sets, no vectors", members.Name, sizes.Name))
	}
	d.holds = Schema{
		Kind: Sparse, Base: BaseZero, Records: int64(sizes.Shape[0]), Member: members.Name, Distance: distance,
	}
	return d, nil
}

func (d *hdf5Sets) schema() Schema { return d.holds }

func (d *hdf5Sets) next(rec *Record, n int64) error {
	size, err := d.sizes.next()
	if err == io.EOF {
		if _, err := d.members.next(); err != io.EOF {
			return d.src.bad(-1, 0, errors.New("more numbers than the sets have"))
		}
		return io.EOF
	}
	if err != nil {
		return d.src.hdf5Error(n, err)
	}
	if size < 0 || size > d.maxSize {
		return d.src.bad(n, -1, fmt.Errorf("a set of %d numbers, want at most %d", size, d.maxSize))
	}
	var fault error
	for range size {
		m, err := d.members.next()
		if err != nil {
			return d.src.hdf5Error(n, err)
		}
		if m < 0 || m >= d.limit {
			fault = fmt.Errorf("the set has the number %d, want 0 to below %d", m, d.limit)
			continue
		}
		rec.Features.Index = append(rec.Features.Index, uint32(m))
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

// hdf5Numbers reads an array of one dimension.
type hdf5Numbers struct {
	rows *hdf5.Rows
	elem elem
}

// next returns the next number; io.EOF after the last one.
func (h hdf5Numbers) next() (int64, error) {
	raw, err := h.rows.Next()
	if err != nil {
		return 0, err
	}
	return h.elem.int(raw, 0), nil
}
