package rows

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/vector"
)

// attributes has one of each type.
var attributes = []attribute.Attribute{
	{Name: attribute.Expiry, Value: time.Unix(2e9, 5).UTC()}, {Name: "brand", Value: "x"}, {Name: "new", Value: true},
	{Name: "price", Value: 2.5}, {Name: "year", Value: int64(-3)},
}

// FuzzOne reads any bytes as a single dense row: what is accepted is within the limits and is
// written back as the same row.
func FuzzOne(f *testing.F) {
	for _, r := range []Row{
		{Key: []byte("k"), Vector: []float32{1, 2, 3}},
		{Key: bytes.Repeat([]byte("k"), MaxKey), Vector: []float32{1}, Cold: Cold{Labels: []string{"a", "b"},
			Attributes: attributes, Payload: []byte("payload")}},
	} {
		b, err := codec.Parse(Format{Dim: len(r.Vector)}.EncodeOne(nil, &r))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b.Payload, uint16(len(r.Vector)))
	}
	f.Add([]byte{0, 0, 0, 0, 1, 0, 'k', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, uint16(1))
	f.Fuzz(func(t *testing.T, p []byte, dim uint16) {
		format := Format{Dim: int(dim)}
		one, err := format.Split(p)
		if err != nil {
			return
		}
		head := 4*int(dim) + 2 + len(one.Key)
		if len(one.Vector) != int(dim) || len(one.Key) < 1 || len(one.Key) > MaxKey || head+len(one.Cold) != len(p) {
			t.Fatalf("%d bytes are cut into %d, %d and %d", len(p), len(one.Vector), len(one.Key), len(one.Cold))
		}
		c, err := DecodeCold(one.Cold)
		if err != nil {
			return
		}
		if len(c.Labels) > MaxLabels || len(c.Attributes) > attribute.MaxAttributes || len(c.Payload) > MaxPayload {
			t.Fatalf("%d labels, %d attributes and %d bytes", len(c.Labels), len(c.Attributes), len(c.Payload))
		}
		again, err := DecodeCold(AppendCold(nil, &c))
		if err != nil || !again.Equal(&c) {
			t.Fatalf("%+v comes back as %+v: %v", c, again, err)
		}
		r, err := format.DecodeOne(p)
		if err != nil {
			return // the memory of p is not aligned
		}
		b, err := codec.Parse(format.EncodeOne(nil, &r))
		if err != nil || !bytes.Equal(b.Payload[:head], p[:head]) {
			t.Fatalf("%x comes back as %x, %v", p, b.Payload, err)
		}
	})
}

// FuzzSparseOne reads any bytes as the vector of a single sparse row: what is accepted must be
// written back as the same bytes.
func FuzzSparseOne(f *testing.F) {
	f.Add(appendSparse(nil, vector.Sparse{}))
	f.Add(appendSparse(nil, vector.Sparse{Index: []uint32{1, 9}, Value: []float32{0.6, 0.8}}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, p []byte) {
		s, rest, err := splitVector(p)
		if err != nil {
			return
		}
		if again := append(appendSparse(nil, s), rest...); !bytes.Equal(again, p) {
			t.Fatalf("%x comes back as %x", p, again)
		}
	})
}

// FuzzSparseChunk reads any bytes as a chunk of sparse rows: every row of an accepted one can
// be read, and features ascend below the dimension.
func FuzzSparseChunk(f *testing.F) {
	rows := []Row{
		{Sparse: vector.Sparse{Index: []uint32{1, 9}, Value: []float32{0.6, 0.8}}},
		{}, {Sparse: vector.Sparse{Index: []uint32{3}, Value: []float32{1}}},
	}
	f.Add(encodeSparse(rows), uint8(3), uint16(10))
	f.Add(encodeSparse(rows), uint8(2), uint16(10))
	f.Add(encodeSparse(nil), uint8(0), uint16(0))
	f.Fuzz(func(t *testing.T, p []byte, n uint8, dim uint16) {
		c, err := ViewSparse(p, int(n), int(dim), true)
		if err != nil {
			return
		}
		for i := range int(n) {
			x := c.Row(i)
			if err := x.Validate(); err != nil {
				t.Fatal(err)
			}
			if !slices.IsSorted(x.Index) || x.Len() > 0 && int(x.Index[x.Len()-1]) >= int(dim) {
				t.Fatalf("row %d has features %v of %d", i, x.Index, dim)
			}
		}
	})
}

// TestOne encodes and decodes single rows.
func TestOne(t *testing.T) {
	for name, c := range map[string]struct {
		format Format
		row    Row
	}{
		"dense": {Format{Dim: 2}, Row{Key: []byte("a"), Vector: []float32{1, -2},
			Cold: Cold{Labels: []string{"x", "y"}, Attributes: attributes, Payload: []byte("payload")}}},
		"both": {Format{Dim: 2, Sparse: true, Features: 9}, Row{Key: []byte("c"), Vector: []float32{1, -2},
			Sparse: vector.Sparse{Index: []uint32{8}, Value: []float32{2}},
			Cold:   Cold{Text: "some words", Payload: []byte("payload")}}},
		"sparse": {Format{Sparse: true, Features: 9}, Row{Key: []byte("b"), Cold: Cold{Payload: []byte{}},
			Sparse: vector.Sparse{Index: []uint32{3, 8}, Value: []float32{0.5, 2}}}},
	} {
		key := codec.Key(1, codec.KindTail, 7)
		b, err := codec.Parse(c.format.EncodeOne(key[:], &c.row))
		if err == nil {
			err = b.Verify(key[:])
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.format.DecodeOne(b.Payload)
		if err != nil || !reflect.DeepEqual(got, c.row) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.row)
		}
		clear(b.Payload)
		if !bytes.Equal(got.Key, c.row.Key) {
			t.Errorf("%s: the row aliases its block", name)
		}
	}
}

// TestChunk encodes chunks: coordinates become bytes only where that is lossless and allowed,
// and labels and payloads are split into runs.
func TestChunk(t *testing.T) {
	half, minus := float32(0.5), float32(math.Copysign(0, -1))
	for name, c := range map[string]struct {
		format Format
		last   float32 // coordinate of the last row
		elem   codec.Elem
	}{
		"bytes":       {Format{ID: 3, Dim: 1, Bytes: true, Norms: true}, 255, codec.U8},
		"256":         {Format{ID: 3, Dim: 1, Bytes: true, Norms: true}, 256, codec.F32},
		"half":        {Format{ID: 3, Dim: 1, Bytes: true, Norms: true}, half, codec.F32},
		"minus zero":  {Format{ID: 3, Dim: 1, Bytes: true, Norms: true}, minus, codec.F32},
		"not allowed": {Format{ID: 3, Dim: 1, Norms: true}, 255, codec.F32},
	} {
		t.Run(name, func(t *testing.T) {
			rows := make([]Row, 20)
			for i := range rows {
				rows[i] = Row{Key: fmt.Append(nil, i), Vector: []float32{1}, Cold: Cold{
					Labels: []string{fmt.Sprint("l", i)}, Payload: bytes.Repeat([]byte{byte(i)}, ColdRun/8)}}
			}
			rows[19].Vector[0] = c.last
			var kinds []codec.Kind
			var next uint32 // first row of the next run of labels and payloads
			err := c.format.EncodeChunk(2, rows, func(key [codec.KeySize]byte, value []byte) error {
				object, kind, n := codec.ParseKey(key[:])
				b, err := codec.Parse(value)
				if err != nil {
					return err
				}
				data, err := b.Data(codec.MaxRaw)
				if err != nil {
					return err
				}
				kinds = append(kinds, kind)
				first := uint32(2) << c.format.Shift()
				switch {
				case object != 3 || b.Verify(key[:]) != nil:
					t.Errorf("%v block of object %d", kind, object)
				case kind == codec.KindRows && b.Elem != c.elem:
					t.Errorf("rows are stored as %v, want %v", b.Elem, c.elem)
				case kind == codec.KindCold:
					table, err := codec.NewLengths(data)
					if err != nil {
						return err
					}
					if n != first+next || len(data) > ColdRun+1024 {
						t.Errorf("run of %d bytes at row %d, want row %d", len(data), n, first+next)
					}
					for i := range table.Len() {
						r := &rows[next]
						c, err := DecodeCold(table.At(i))
						if err != nil || !c.Equal(&r.Cold) {
							t.Errorf("row %d has labels %q and %d bytes, %v", next, c.Labels, len(c.Payload), err)
						}
						next++
					}
				}
				return nil
			})
			if err != nil || next != 20 {
				t.Errorf("labels of %d rows, %v", next, err)
			}
			if want := []codec.Kind{codec.KindRows, codec.KindKeys, codec.KindNorms, codec.KindCold}; !slices.Equal(
				slices.Compact(kinds), want) {
				t.Errorf("blocks %v, want %v", kinds, want)
			}
		})
	}
}

// TestShift: a chunk of float32 vectors fits a block.
func TestShift(t *testing.T) {
	for _, dim := range []int{0, 1, 2, 100, 784, 4096, 1 << 16} {
		s := Format{Dim: dim}.Shift()
		if n := 1 << s; n > MaxChunk || 4*n*dim > 1<<20-codec.HeaderSize {
			t.Errorf("%d coordinates: %d rows", dim, n)
		}
	}
	if s := (Format{Sparse: true, Features: 1 << 20}).Shift(); s != SparseShift {
		t.Errorf("2^%d sparse rows", s)
	}
}
