package arrays

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/verified"
)

// memory is a source of written blocks.
type memory struct {
	blocks map[[codec.KeySize]byte][]byte // payloads
	checks verified.Checks
}

var errDamage = errors.New("damage")

func (m *memory) put(key [codec.KeySize]byte, value []byte) error {
	b, err := codec.Parse(value)
	if err != nil {
		return err
	}
	m.blocks[key] = b.Payload
	return b.Verify(key[:])
}

func (m *memory) Blocks(_ context.Context, object uint64, kind codec.Kind) (out [][]byte, _ error) {
	for n := uint32(0); ; n++ {
		b, ok := m.blocks[codec.Key(object, kind, n)]
		if !ok {
			return out, nil
		}
		out = append(out, b)
	}
}

func (m *memory) Damage(object uint64, err error) error {
	return fmt.Errorf("%w of object %d: %w", errDamage, object, err)
}

func (m *memory) Once(key verified.Key, bound int, check func() error) error {
	return m.checks.Once(key, bound, check)
}

// thing has a field of every sort.
type thing struct {
	bytes  []byte
	signed []int64
	small  []int8
	floats []float32
	double []float64
}

func (x *thing) arrays(s *Section) {
	Field(s, 0, &x.bytes)
	Field(s, 1, &x.signed)
	Field(s, 2, &x.small)
	FieldOf(s, 3, &x.floats, 3)
	Field(s, 4, &x.double)
}

func newThing() thing {
	return thing{[]byte("bytes"), []int64{-1, 1 << 40}, []int8{-7}, []float32{1, 2, 3}, []float64{0.5}}
}

// written returns a source with a thing, names and rows of object 5.
func written(t *testing.T, rows []uint32) *memory {
	t.Helper()
	m := &memory{blocks: map[[codec.KeySize]byte][]byte{}}
	w := NewWriter(5, m.put)
	x := newThing()
	x.arrays(w.Section(codec.KindBudget))
	s := w.Section(codec.KindLabelMatrix)
	s.WriteNames(0, []string{"a", "", "c"})
	WriteRows(w, codec.KindNeighbors, rows, 2, 2)
	if w.Err != nil {
		t.Fatal(w.Err)
	}
	size := int64(0)
	for _, b := range m.blocks {
		size += int64(len(b))
	}
	var counted int64
	for _, n := range w.Sizes {
		counted += n
	}
	if counted < size+64*int64(len(m.blocks)) {
		t.Errorf("%d bytes counted, %d written", counted, size)
	}
	return m
}

// TestRoundTrip reads what was written.
func TestRoundTrip(t *testing.T) {
	rows := make([]uint32, 2*11)
	for i := range rows {
		rows[i] = uint32(i)
	}
	r := NewReader(t.Context(), written(t, rows), 5)
	var x thing
	x.arrays(r.Section(codec.KindBudget))
	if !reflect.DeepEqual(x, newThing()) {
		t.Errorf("%+v, want %+v", x, newThing())
	}
	s := r.Section(codec.KindLabelMatrix)
	if names := s.ReadNames(0, 3); names.Len() != 3 || string(names.At(2)) != "c" {
		t.Errorf("%d names", names.Len())
	}
	if s.Len() != 1 {
		t.Errorf("%d arrays", s.Len())
	}
	got := ReadRows[uint32](r, codec.KindNeighbors, 11, 2, 2)
	if len(got) != 3 || len(got[2]) != 6 || !slices.Equal(slices.Concat(got...), rows) {
		t.Errorf("rows %v", got)
	}
	if parts := ReadRows[uint32](r, codec.KindSketch, 0, 2, 2); len(parts) != 0 || r.Err != nil {
		t.Errorf("no rows: %v, %v", parts, r.Err)
	}
}

// TestDamage reads arrays that do not agree with what is expected of them.
func TestDamage(t *testing.T) {
	m := written(t, make([]uint32, 10))
	read := map[string]func(r *Reader){
		"block 3": func(r *Reader) { FieldOf(r.Section(codec.KindBudget), 3, new([]float32), 4) },
		"block 9 is missing": func(r *Reader) {
			FieldOf(r.Section(codec.KindBudget), 9, new([]byte), 1)
		},
		"label names":             func(r *Reader) { r.Section(codec.KindLabelMatrix).ReadNames(0, 4) },
		"does not cover the rows": func(r *Reader) { ReadRows[uint32](r, codec.KindNeighbors, 6, 2, 2) },
		"sums":                    func(r *Reader) { r.Need(false, "sums") },
		"cross-reference": func(r *Reader) {
			r.Once(0, "", 0, func() error { return errors.New("cross-reference") })
		},
	}
	for want, f := range read {
		t.Run(want, func(t *testing.T) {
			r := NewReader(t.Context(), m, 5)
			f(r)
			if !errors.Is(r.Err, errDamage) || !strings.Contains(r.Err.Error(), want) {
				t.Errorf("%v, want %q", r.Err, want)
			}
			first := r.Err
			r.Need(false, "more")
			r.Once(1, "", 0, func() error { t.Error("a check after damage"); return nil })
			if other := r.Of(6); r.Err != first || other.Err != first || other.Blocks(codec.KindBudget) != nil {
				t.Errorf("%v replaced the first error", r.Err)
			}
		})
	}
}

// TestSink: after the first error of the sink nothing is written.
func TestSink(t *testing.T) {
	failed, calls := errors.New("failed"), 0
	w := NewWriter(1, func([codec.KeySize]byte, []byte) error { calls++; return failed })
	w.Blocks(codec.KindLeaves, [][]byte{{1}, {2}})
	if w.Err != failed || calls != 1 {
		t.Errorf("%d calls, %v", calls, w.Err)
	}
}

// TestShiftFor: a block has at most about 1 MiB, and at least one row.
func TestShiftFor(t *testing.T) {
	for _, width := range []int{0, 1, 4, 63, 64, 400, 4096, 1 << 19, 1 << 20, 1 << 22} {
		s := ShiftFor(width)
		if size := width << s; s > 20 || s > 0 && size > 1<<20-codec.HeaderSize {
			t.Errorf("rows of %d bytes: blocks of %d rows", width, 1<<s)
		}
	}
}
