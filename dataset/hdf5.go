package dataset

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/anndb/anndb/dataset/internal/hdf5"
)

// hdf5Magic begins a file.
const hdf5Magic = "\x89HDF\r\n\x1a\n"

// hdf5Decoder reads the rows of one array of an HDF5 file.
type hdf5Decoder struct {
	src   *source
	rows  *hdf5.Rows
	elem  elem
	holds Schema
}

// openHDF5 reads one array of an HDF5 file: the first dimension counts the records, the others,
// multiplied, are the vector's dimensions.
func openHDF5(s *source, o Options) (decoder, error) {
	f, err := hdf5.Open(s.at, s.size)
	if err != nil {
		return nil, s.hdf5Error(-1, err)
	}
	var members []member
	for _, a := range f.Arrays {
		members = append(members, member{a.Name, a.MayBeRows(), a.Fault()})
	}
	i, err := o.member(members)
	if err != nil {
		return nil, s.bad(-1, 0, err)
	}
	a, distance := f.Arrays[i], f.Attributes["distance"]
	sizes := slices.IndexFunc(f.Arrays, func(b *hdf5.Array) bool { return b.Name == "size_"+a.Name })
	if sizes >= 0 && len(a.Shape) == 1 {
		return newHDF5Sets(s, o, a, f.Arrays[sizes], distance)
	}
	if o.Kind == Sparse {
		return nil, s.bad(-1, 0, errors.New(a.String()+" has vectors, no sparse records"))
	}
	return newHDF5Decoder(s, o, a, distance)
}

// hdf5Elem returns the type of an array's numbers.
func hdf5Elem(t hdf5.Type) elem {
	kinds := map[int]elemKind{1: kindU8, 2: kindU16, 4: kindU32, 8: kindU64}
	switch {
	case t.Float:
		kinds = map[int]elemKind{2: kindF16, 4: kindF32, 8: kindF64}
	case t.Signed:
		kinds = map[int]elemKind{1: kindI8, 2: kindI16, 4: kindI32, 8: kindI64}
	}
	return elem{kinds[t.Size], t.Big}
}

func newHDF5Decoder(s *source, o Options, a *hdf5.Array, distance string) (decoder, error) {
	if len(a.Shape) == 1 && a.Unsupported == "" {
		return nil, s.bad(-1, 0, errors.New(a.String()+" has one dimension, want rows and columns"))
	}
	rows, err := a.Rows()
	if err != nil {
		return nil, s.hdf5Error(-1, err)
	}
	dim, err := product(a.Shape[1:], o.MaxDim)
	if err != nil {
		return nil, s.bad(-1, 0, err)
	}
	schema := Schema{
		Kind: Dense, Dim: dim, Base: BaseZero, Records: int64(a.Shape[0]), Member: a.Name, Distance: distance,
	}
	return &hdf5Decoder{src: s, rows: rows, elem: hdf5Elem(a.Type), holds: schema}, nil
}

func (d *hdf5Decoder) schema() Schema { return d.holds }

func (d *hdf5Decoder) next(rec *Record, n int64) error {
	raw, err := d.rows.Next()
	if err == io.EOF {
		return io.EOF
	}
	if err != nil {
		return d.src.hdf5Error(n, err)
	}
	rec.Vector = resize(rec.Vector, d.holds.Dim)
	if err := d.elem.decode(rec.Vector, raw); err != nil {
		return d.src.badRecord(n, -1, err)
	}
	return nil
}

// hdf5Error makes the error of a fault in an HDF5 file.
func (s *source) hdf5Error(record int64, err error) error {
	if f := (*hdf5.Error)(nil); errors.As(err, &f) {
		return s.bad(record, f.Offset, err)
	}
	return s.fail(record, err)
}

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
	d := &hdf5Sets{src: s, options: o}
	var err error
	if d.numbers, err = hdf5NumbersOf(s, numbers); err != nil {
		return nil, err
	}
	if d.sizes, err = hdf5NumbersOf(s, sizes); err != nil {
		return nil, err
	}
	d.holds = Schema{
		Kind: Sparse, Base: BaseZero, Records: int64(sizes.Shape[0]), Member: numbers.Name,
		Distance: distance,
	}
	return d, nil
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
		} else if err := appendFeature(&rec.Features, uint32(number), 1); err != nil {
			fault = err
		}
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
	if len(a.Shape) != 1 || !h.elem.integer() {
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
