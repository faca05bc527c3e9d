package labeltreeindex

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/verified"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/labeltree"
	"github.com/anndb/anndb/vector"
)

// source is a dense collection with arrays in memory, which notes what is checked once.
type source struct {
	kind.Source
	rows    *query.View
	blocks  [][]byte
	checked []verified.Key
}

func (s *source) Collection() *kind.Collection                                 { return &kind.Collection{Dim: 2} }
func (s *source) Rows(context.Context) (*query.View, error)                    { return s.rows, nil }
func (s *source) Damage(_ uint64, err error) error                             { return err }
func (s *source) Blocks(context.Context, uint64, codec.Kind) ([][]byte, error) { return s.blocks, nil }

func (s *source) Arrays(ctx context.Context, _ string, object uint64) *arrays.Reader {
	return arrays.NewReader(ctx, s, object)
}

func (s *source) Once(key verified.Key, _ int, check func() error) error {
	if slices.Contains(s.checked, key) {
		return nil
	}
	s.checked = append(s.checked, key)
	return check()
}

// The arrays of a model with a scale are checked once, though each generation decodes a scale of its own.
func TestOpenChecksOnce(t *testing.T) {
	x := &vector.CSR{Ptr: []uint64{0, 1, 2}, Index: []uint32{0, 1}, Value: []float32{1, 1}, Cols: 2}
	sets, err := labels.FromSets([][]uint32{{0}, {1}}, 2)
	must(t, err)
	m, err := labeltree.Train(t.Context(), labeltree.Job{X: x, Sets: sets, Rows: []int{0, 1}}, nil)
	must(t, err)
	l := &learned{model: m, names: []string{"a", "b"}, rows: []uint32{1, 1}}
	l.input.encoding = encoding{Vectors: 2, Divisor: 1, Scale: &lcif.Scaling{Mean: []float32{0, 0}, Factor: []float32{1, 1}}}
	st, g := &source{}, kind.Segment{Object: 1, Rows: 2}
	w := arrays.NewWriter(g.Object, func(key [codec.KeySize]byte, value []byte) error {
		b, err := codec.Parse(value)
		_, _, number := codec.ParseKey(key[:])
		for len(st.blocks) <= int(number) {
			st.blocks = append(st.blocks, nil)
		}
		st.blocks[number] = b.Payload
		return err
	})
	l.Emit(w, &g)
	must(t, w.Err)
	text, err := json.Marshal(g.Own)
	must(t, err)
	for range 3 {
		own := &detail{}
		must(t, json.Unmarshal(text, own))
		g.Own = own
		_, err := Kind{}.Open(t.Context(), st, &kind.Manifest{
			Options: &index.LabelTree{}, Segments: []kind.Segment{g}, Dim: 2,
		})
		must(t, err)
	}
	if len(st.checked) != 1 {
		t.Fatal(fmt.Sprint(st.checked))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
