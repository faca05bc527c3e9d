package query

import (
	"errors"
	"slices"
	"testing"
	"unsafe"

	"github.com/anndb/anndb/vector"
)

func TestViewValidate(t *testing.T) {
	f := small()
	must(t, f.v.Validate())
	for name, breakIt := range map[string]func(v *View){
		"metric":             func(v *View) { v.Metric = 0 },
		"dimension zero":     func(v *View) { v.Dim, v.Rows.Dim = 0, 0 },
		"dimension of rows":  func(v *View) { v.Dim++ },
		"covers too many":    func(v *View) { v.N = v.Rows.N + 1 },
		"covers less than 0": func(v *View) { v.N = -1 },
		"rows":               func(v *View) { v.Rows.N = -1; v.N = -1 },
		"more rows":          func(v *View) { v.Rows.N += 1000 },
		"types":              func(v *View) { v.Rows.Uint8 = v.Rows.Uint8[1:] },
		"type of a chunk":    func(v *View) { v.Rows.Uint8 = make([]bool, len(v.Rows.Uint8)) },
		"shift":              func(v *View) { v.Rows.Shift = 40 },
		"short chunk": func(v *View) {
			v.Rows.Chunks = append([][]byte{v.Rows.Chunks[0][1:]}, v.Rows.Chunks[1:]...)
		},
		"short tail": func(v *View) { v.Rows.Tail = v.Rows.Tail[1:] },
		"short tail row": func(v *View) {
			v.Rows.Tail = append([][]byte{v.Rows.Tail[0][:8]}, v.Rows.Tail[1:]...)
		},
		"unaligned tail row": func(v *View) {
			b := make([]byte, 4*v.Dim+8)
			for uintptr(unsafe.Pointer(&b[0]))%4 != 1 {
				b = b[1:]
			}
			v.Rows.Tail = append([][]byte{b}, v.Rows.Tail[1:]...)
		},
		"short norms": func(v *View) {
			v.Rows.InvNorm = append([][]float32{{1}}, v.Rows.InvNorm[1:]...)
		},
		"forest of fewer rows":  func(v *View) { v.N = 100 },
		"forest of other space": func(v *View) { v.RawForest = true },
		"lift":                  func(v *View) { v.Lift = true },
		"rotation":              func(v *View) { r := *v.Rotation; r.Dim++; v.Rotation = &r },
		"rotation without R":    func(v *View) { r := *v.Rotation; r.R = 0; v.Rotation = &r },
		"sketch unrotated":      func(v *View) { v.Rotation, v.RawForest, v.Forest = nil, true, nil },
		"sketch width":          func(v *View) { s := *v.Sketch; s.Width = 96; v.Sketch = &s },
		"sketch chunks":         func(v *View) { s := *v.Sketch; s.Chunks = nil; v.Sketch = &s },
		"sketch short":          func(v *View) { s := *v.Sketch; s.Chunks, s.Keep = nil, nil; v.Sketch = &s },
		"centers of coordinates": func(v *View) {
			s := *v.Sketch
			s.Centers = NewCenters(make([]float32, v.Dim), v.Dim)
			v.Sketch = &s
		},
		"centers without step":  func(v *View) { breakCenters(v, func(c *Centers) { c.Step = 0 }) },
		"too few centers":       func(v *View) { breakCenters(v, func(c *Centers) { c.N++ }) },
		"lists of fewer blocks": func(v *View) { n := *v.Neighbors; n.Blocks = n.Blocks[1:]; v.Neighbors = &n },
		"lists of none":         func(v *View) { n := *v.Neighbors; n.K = 0; v.Neighbors = &n },
		"lists without starts": func(v *View) {
			n := *v.Neighbors
			n.Blocks = slices.Clone(n.Blocks)
			n.Blocks[1].Starts = n.Blocks[1].Starts[1:]
			v.Neighbors = &n
		},
	} {
		v := f.with(breakIt)
		if err := v.Validate(); !errors.Is(err, ErrView) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// breakCenters gives a view sketches of signs with centers, and changes these.
func breakCenters(v *View, change func(c *Centers)) {
	c := NewCenters(make([]float32, v.Inner()), v.Inner())
	change(c)
	b := make([]byte, 64*v.N)
	v.Sketch = SketchEncoder{Width: 64, Signs: true, Centers: c}.View([][]byte{b}, 31)
}

// Vector reads rows of every kind.
func TestVector(t *testing.T) {
	m := clustered(70, 6, 1)
	for _, bytes := range []bool{false, true} {
		r := rowSet(m, spec{metric: vector.L2, bytes: bytes, shift: 4})
		buf := make([]float32, 6)
		for i := range m.n {
			for j, x := range r.Vector(i, buf) {
				if x != m.row(i)[j] {
					t.Fatalf("row %d: %v, want %v", i, r.Vector(i, buf), m.row(i))
				}
			}
		}
	}
}

// A part of the rows has their numbers and norms, in bytes where all of them are.
func TestPart(t *testing.T) {
	m := clustered(100, 5, 3)
	for _, stored := range []spec{{shift: 4}, {shift: 4, bytes: true}, {}} {
		r := rowSet(m, stored)
		for _, c := range [][2]int{{0, 10}, {3, 40}, {16, 48}, {30, 100}, {97, 100}} {
			got := r.Part(c[0], c[1])
			must(t, got.validate())
			inChunks := c[1] <= len(r.Chunks)<<r.Shift
			if got.N != c[1]-c[0] || got.Uint8[0] != (stored.bytes && inChunks) || (got.InvNorm != nil) != inChunks {
				t.Errorf("rows %v: %d rows, in bytes %t, with norms %t", c, got.N, got.Uint8[0], got.InvNorm != nil)
			}
			for i := range got.N {
				x := m.row(c[0] + i)
				if !slices.Equal(got.Vector(i, make([]float32, 5)), x) {
					t.Fatalf("row %d of %v", i, c)
				}
				if norm, ok := got.invNorm(0, i); ok && norm != vector.InverseNorm(x) {
					t.Fatalf("norm of row %d of %v", i, c)
				}
			}
		}
	}
}
