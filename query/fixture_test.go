package query

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// matrix is rows side by side, as the learners read them.
type matrix struct {
	data []float32
	n, d int
}

func (m *matrix) Len() int                         { return m.n }
func (m *matrix) Dim() int                         { return m.d }
func (m *matrix) Row(i int, _ []float32) []float32 { return m.data[i*m.d : (i+1)*m.d] }
func (m *matrix) row(i int) []float32              { return m.data[i*m.d : (i+1)*m.d] }

// spec says what view to build.
type spec struct {
	metric  vector.Metric
	forest  forest.Params
	labelsK int // neighbours a row is labelled with
	rotate  int // rotated coordinates the forest splits on; 0: raw ones
	sketch  int // bytes
	hops    int
	bytes   bool              // rows stored in eight bits
	shift   uint              // rows a chunk; 0: all rows in the tail
	fresh   int               // last rows, which the index does not cover
	lists   *labels.Neighbors // precomputed labels
	base    *View             // the large segment of a small one
}

// clustered draws n whole-valued rows of d coordinates around a few centres,
// so that both storage types can hold them and distances tie now and then.
func clustered(n, d int, seed uint64) *matrix {
	rng := rand.New(rand.NewPCG(seed, 7))
	m := &matrix{make([]float32, n*d), n, d}
	centres := make([]float64, 12*d)
	for i := range centres {
		centres[i] = 40 + 170*rng.Float64()
	}
	for i := range n {
		c := centres[i%12*d:]
		for j := range d {
			v := math.Round(c[j] + 25*rng.NormFloat64()/math.Sqrt(float64(1+j%8)))
			m.data[i*d+j] = float32(max(0, min(255, v)))
		}
	}
	return m
}

// partitionSpace maps rows to where partitions and labels are Euclidean.
func partitionSpace(m *matrix, metric vector.Metric) (*matrix, float32) {
	switch metric {
	case vector.Cosine:
		out := &matrix{make([]float32, len(m.data)), m.n, m.d}
		for i := range m.n {
			inv := vector.InverseNorm(m.row(i))
			for j, x := range m.row(i) {
				out.row(i)[j] = x * inv
			}
		}
		return out, 0
	case vector.InnerProduct:
		out := &matrix{make([]float32, m.n*(m.d+1)), m.n, m.d + 1}
		var most float32
		for i := range m.n {
			most = max(most, vector.Dot(m.row(i), m.row(i)))
		}
		for i := range m.n {
			copy(out.row(i), m.row(i))
			out.row(i)[m.d] = float32(math.Sqrt(float64(max(0, most-vector.Dot(m.row(i), m.row(i))))))
		}
		return out, float32(math.Sqrt(float64(most)))
	}
	return m, 0
}

// chunked cuts rows of width elements into chunks of 1<<shift rows.
func chunked[T any](data []T, width int, shift uint) [][]T {
	var out [][]T
	for len(data) > 0 {
		n := min(len(data), width<<shift)
		out = append(out, data[:n:n])
		data = data[n:]
	}
	return out
}

func floatBytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// rowSet stores rows: whole chunks of them, the others in the tail.
func rowSet(m *matrix, s spec) RowSet {
	r := RowSet{N: m.n, Dim: m.d, Shift: s.shift}
	sealed := 0
	if s.shift > 0 {
		sealed = m.n >> s.shift << s.shift
	}
	for lo := 0; lo < sealed; lo += 1 << s.shift {
		part := m.data[lo*m.d : (lo+1<<s.shift)*m.d]
		chunk := floatBytes(part)
		if s.bytes {
			chunk = make([]byte, len(part))
			for i, x := range part {
				chunk[i] = uint8(x)
			}
		}
		r.Chunks = append(r.Chunks, chunk)
		r.Uint8 = append(r.Uint8, s.bytes)
		norms := make([]float32, 1<<s.shift)
		for i := range norms {
			norms[i] = vector.InverseNorm(m.row(lo + i))
		}
		r.InvNorm = append(r.InvNorm, norms)
	}
	for i := sealed; i < m.n; i++ {
		r.Tail = append(r.Tail, floatBytes(m.row(i)))
	}
	return r
}

// build learns every part of a view in memory.
func build(tb testing.TB, m *matrix, s spec) *View {
	tb.Helper()
	ctx := context.Background()
	covered := &matrix{m.data, m.n - s.fresh, m.d}
	space, lift := partitionSpace(covered, s.metric)
	if s.base != nil && s.metric == vector.InnerProduct {
		lift = s.base.LiftNorm
		for i := range space.n {
			space.row(i)[space.d-1] = float32(math.Sqrt(float64(max(0, lift*lift-vector.Dot(m.row(i), m.row(i))))))
		}
	}
	v := &View{Metric: s.metric, Dim: m.d, Segment: Segment{N: covered.n}, Rows: rowSet(m, s), LiveCount: m.n}
	v.Lift, v.LiftNorm = s.metric == vector.InnerProduct, lift
	check := func(err error) {
		if err != nil {
			tb.Helper()
			tb.Fatal(err)
		}
	}
	lists := s.lists
	var err error
	if lists == nil && (s.labelsK > 0 || s.hops > 0) {
		lists, err = labels.ExactNeighbors(ctx, space, nil, max(s.labelsK, s.hops+1), 2, nil)
		check(err)
	}
	var rotated *matrix
	if s.rotate > 0 || s.sketch > 0 {
		if s.base != nil {
			v.Rotation = s.base.Rotation
		} else {
			v.Rotation, err = forest.PCA(ctx, space, max(s.rotate, min(s.sketch-4, space.d)), 10_000, 1, 2)
			check(err)
		}
		rotated = &matrix{make([]float32, space.n*v.Rotation.R), space.n, v.Rotation.R}
		for i := range space.n {
			v.Rotation.Apply(space.row(i), rotated.row(i))
		}
	}
	if s.forest.Trees > 0 {
		train := space
		v.RawForest = s.rotate == 0
		if s.rotate > 0 {
			train = &matrix{make([]float32, space.n*s.rotate), space.n, s.rotate}
			for i := range space.n {
				copy(train.row(i), rotated.row(i))
			}
		}
		if s.forest.Natural || !s.forest.Members {
			s.forest.LabelsK = min(s.labelsK, lists.K)
		}
		v.Forest, err = forest.Learn(ctx, train, space.n, lists, s.forest, 2, nil)
		check(err)
		check(v.Forest.Validate())
	}
	if s.sketch > 0 {
		e := encoder(space, rotated, v.Rotation, lists, s.sketch)
		if s.base != nil {
			e.Steps, e.Rest, e.Centers = s.base.Sketch.Steps, 1, nil
		}
		v.Sketch = sketches(e, space, rotated, v.Rotation)
	}
	if s.hops > 0 {
		flat := make([]uint32, space.n*s.hops)
		for i := range space.n {
			copy(flat[i*s.hops:(i+1)*s.hops], lists.Row(i)[1:])
		}
		v.Neighbors = neighborView(flat, s.hops, 7)
		check(v.Neighbors.Check(space.n))
	}
	check(v.Validate())
	return v
}

// neighborView packs lists of k rows each.
func neighborView(lists []uint32, k int, shift uint) *NeighborView {
	v := &NeighborView{K: k, Shift: shift}
	for i, part := range chunked(lists, k, shift) {
		v.Blocks = append(v.Blocks, PackNeighbors(part, k, i<<shift))
	}
	return v
}

// segmented builds segments of the rows before each of ends. The rows behind the last one are fresh.
func segmented(tb testing.TB, m *matrix, s spec, ends ...int) *View {
	tb.Helper()
	part := func(from, to int) *matrix { return &matrix{m.data[from*m.d : to*m.d], to - from, m.d} }
	v := build(tb, part(0, ends[0]), s)
	s.base = v
	for i, end := range ends[1:] {
		g := build(tb, part(ends[i], end), s).Segment
		g.First = ends[i]
		v.Small = append(v.Small, g)
	}
	v.Rows, v.LiveCount = rowSet(m, s), m.n
	must(tb, v.Validate())
	return v
}

// encoder fits the code of sketches: of 64 bytes with principal coordinates, wider ones of signs, with centers
// for all groups but the last.
func encoder(space, rotated *matrix, rot *forest.Rotation, lists *labels.Neighbors, width int) SketchEncoder {
	e := SketchEncoder{Width: width, Signs: true}
	if width == vector.PackedWidth {
		e = FitSketches(space, rotated, rot.Mean, lists)
	} else if groups := CenterGroups(space.n) - 1; groups > 0 {
		means := make([]float32, groups*space.d)
		for i := range groups << centerShift {
			for j, x := range space.row(i) {
				means[i>>centerShift*space.d+j] += x / (1 << centerShift)
			}
		}
		e.Centers = NewCenters(means, space.d)
	}
	return e
}

// sketches encodes the sketches of all rows.
func sketches(e SketchEncoder, space, rotated *matrix, rot *forest.Rotation) *SketchView {
	out := make([]byte, space.n*e.Width)
	for i := range space.n {
		e.Encode(out[i*e.Width:], i, space.row(i), rotated.row(i), rot.Mean)
	}
	const shift = 13
	return e.View(chunked(out, e.Width, shift), shift)
}

// common is how many of the true rows were found.
func common(found []vector.Neighbor, want []uint32) int {
	n := 0
	for _, f := range found {
		if slices.Contains(want, f.ID) {
			n++
		}
	}
	return n
}

// must ends a test that has got an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// heldOut returns the queries of the fixture with their k nearest rows.
func (f *fixture) heldOut(k int) (queries [][]float32, truth [][]uint32) {
	for i := range f.queries.n {
		q := f.queries.row(i)
		queries, truth = append(queries, q), append(truth, exactly(f.all, f.v.Metric, q, k, nil))
	}
	return queries, truth
}
