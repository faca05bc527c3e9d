package lcif

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Over dense rows the tuner measures what predictions do.
func TestTuneOverDenseRows(t *testing.T) {
	ctx := context.Background()
	m := twelveClusters(360, 10, 9)
	const n, l = 300, 12
	scan := plainScan(m, n)
	sets := make([][]uint32, m.n)
	q := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for i := range sets {
		sets[i] = []uint32{uint32(i % l)}
		if i >= n {
			q.Append(sparse(m.row(i)))
		}
	}
	q.Cols = m.d
	train, err := labels.FromSets(sets[:n], l)
	must(t, err)
	truth, err := labels.FromSets(sets[n:], l)
	must(t, err)
	v := &View{Features: m.d, Labels: train, Neighbors: scan}
	held := &HeldOut{Parts: []Part{{View: v, Queries: q, Truth: truth}}, Train: train}
	c, err := Tune(ctx, func(context.Context, int) (*HeldOut, error) { return held, nil }, TuneOptions{
		Objective: Accuracy, Lambdas: []float64{1}, Ks: []int{1, 5, 20}, Workers: 2,
	})
	must(t, err)
	want, th := plain(t, held, c.Best.Setting)
	want.PSP5 = 0 // it is not measured
	if !equalMeasures(c.Best.Measures, want) || !reflect.DeepEqual(c.Params.Thresholds, th) || want.Accuracy < 0.8 {
		t.Errorf("chosen for %+v, predictions do %+v", c.Best, want)
	}
}

// Feature scores take a value below zero as zero, in training rows and queries.
func TestNegativeFeatures(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(6, 2))
	const n, m, l = 300, 20, 9
	signed, above := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}, &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	var sets [][]uint32
	for range n {
		var x, y vector.Sparse
		length := 0.0
		for f := range uint32(m) {
			v := float32(rng.NormFloat64())
			x.Index, x.Value = append(x.Index, f), append(x.Value, v)
			length += float64(v) * float64(v)
		}
		for i, v := range x.Value {
			x.Value[i] = float32(float64(v) / math.Sqrt(length))
			if v > 0 {
				y.Index, y.Value = append(y.Index, x.Index[i]), append(y.Value, x.Value[i])
			}
		}
		signed.Append(x)
		above.Append(y)
		sets = append(sets, []uint32{uint32(rng.IntN(l))})
	}
	signed.Cols, above.Cols = m, m
	matrix, err := labels.FromSets(sets, l)
	must(t, err)
	v := &View{Features: m, Labels: matrix}
	counts, err := labels.CountFeatureLabels(ctx, FeatureRows(UnitRows(signed, v)), matrix, 1)
	must(t, err)
	must(t, v.SetPower(counts, 1))
	p := &Params{Top: l}
	want, err := predictAll(ctx, v, above, p)
	must(t, err)
	alone := NewPredictor()
	for i := range n {
		one, _, err := alone.Predict(ctx, v, signed.Row(i), p, nil)
		must(t, err)
		scores := map[uint32]float32{}
		for _, r := range want[i] {
			scores[r.Label] = r.Score
		}
		for _, r := range one {
			if math.Abs(float64(r.Score-scores[r.Label])) > 1e-6 || len(one) != len(want[i]) {
				t.Fatalf("row %d: %v, without the values below zero %v", i, one, want[i])
			}
		}
		explained, err := alone.ExplainLabels(ctx, v, signed.Row(i), p, []uint32{one[0].Label})
		if err != nil || math.Abs(explained[0].Feature-float64(one[0].Score)) > 1e-6 {
			t.Fatalf("row %d: %+v of %v, %v", i, explained, one[0], err)
		}
	}
}

// Scaled rows are compared by the cosine of their standardized coordinates.
func TestScaledNeighbors(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	const n, dim = 60, 5
	rows := make([][]float64, n)
	data := make([]float32, 0, n*dim)
	for i := range rows {
		for j := range dim {
			x := float64(float32(100*float64(j) + math.Pow(10, float64(j-2))*rng.NormFloat64()))
			if j == 3 {
				x = 8 // a constant column has no say
			}
			rows[i] = append(rows[i], x)
			data = append(data, float32(x))
		}
	}
	view := &query.View{Dim: dim, Rows: query.RowSet{N: n, Dim: dim}, Deleted: roaring.BitmapOf(3, 7)}
	for i := range n {
		view.Rows.Tail = append(view.Rows.Tail, codec.Bytes(data[i*dim:(i+1)*dim]))
	}
	scale := FitScaling(dim, n, func(i int) []float32 { return data[i*dim : (i+1)*dim] })
	if !scale.Valid(dim) || scale.Valid(dim+1) || scale.Factor[3] != 0 {
		t.Fatalf("scale %+v", scale)
	}
	standard := func(x []float64) []float64 {
		out := make([]float64, dim)
		for j := range dim {
			mean, square := 0.0, 0.0
			for _, r := range rows {
				mean += r[j] / n
			}
			for _, r := range rows {
				square += (r[j] - mean) * (r[j] - mean) / n
			}
			if square > 1e-9 {
				out[j] = (x[j] - mean) / math.Sqrt(square)
			}
		}
		return out
	}
	cosine := func(a, b []float64) float64 {
		var ab, aa, bb float64
		for j := range dim {
			ab, aa, bb = ab+a[j]*b[j], aa+a[j]*a[j], bb+b[j]*b[j]
		}
		return max(0, ab/math.Sqrt(aa*bb))
	}
	source := &ScaledNeighbors{View: view, Scaling: scale}
	var s NeighborScratch
	for i := range n {
		q := scale.Apply(nil, data[i*dim:(i+1)*dim])
		raw := vector.Sparse{Index: []uint32{0, 1, 2, 3, 4}, Value: q}
		hits, err := source.Neighbors(t.Context(), &s, NeighborQuery{Raw: raw, Unit: raw}, 10, nil)
		if err != nil || len(hits) != 10 {
			t.Fatal(len(hits), err)
		}
		var all []float64
		for r := range n {
			if r != 3 && r != 7 {
				all = append(all, cosine(standard(rows[i]), standard(rows[r])))
			}
		}
		slices.SortFunc(all, func(a, b float64) int { return cmp.Compare(b, a) })
		for j, h := range hits {
			if math.Abs(h.Score-all[j]) > 1e-3 || h.Row == 3 || h.Row == 7 {
				t.Fatalf("row %d: neighbor %d is row %d with %v, want %v", i, j, h.Row, h.Score, all[j])
			}
		}
	}
}

// Coordinates that do not fit into a float32 become the largest one, also where only a step to them is too
// large.
func TestScaledCoordinatesAreFinite(t *testing.T) {
	s := &Scaling{Mean: []float32{-3e38, -3e38, 1}, Factor: []float32{1, 0.25, 2}}
	if got := s.Apply([]float32{7}, []float32{3e38, 3e38, 2}); !reflect.DeepEqual(got,
		[]float32{7, math.MaxFloat32, 1.5e38, 2}) {
		t.Fatal(got)
	}
}
