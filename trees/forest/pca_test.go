package forest

import (
	"context"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"github.com/anndb/anndb/vector"
)

// stretched rows vary by scale(j) along the j-th of d orthonormal directions,
// about a mean away from zero. scale beyond the rank is never asked for.
func stretched(seed uint64, n, d, rank int, scale func(j int) float64) table {
	rng := newRand(seed)
	random := mat.NewDense(d, rank, nil)
	for i := range d {
		for j := range rank {
			random.Set(i, j, rng.NormFloat64())
		}
	}
	var qr mat.QR
	qr.Factorize(random)
	var q mat.Dense
	qr.QTo(&q)
	rows := make(table, n)
	for i := range rows {
		rows[i] = make([]float32, d)
		z := make([]float64, rank)
		for j := range z {
			z[j] = rng.NormFloat64() * scale(j)
		}
		for l := range rows[i] {
			v := 3 + float64(l%5)
			for j := range z {
				v += q.At(l, j) * z[j]
			}
			rows[i][l] = float32(v)
		}
	}
	return rows
}

func learnRotation(t testing.TB, rows table, r, sample int) *Rotation {
	t.Helper()
	rot, err := PCA(context.Background(), rows, r, sample, 1, 2)
	must(t, err)
	return rot
}

// checkDirections checks that directions have unit length, are orthogonal, and have
// the sign that makes a rotation repeatable: the largest entry is positive.
func checkDirections(t testing.TB, rot *Rotation) {
	t.Helper()
	for i := range rot.R {
		for j := range i + 1 {
			dot, want := 0.0, 0.0
			for l := range rot.Dim {
				dot += float64(rot.Matrix[i*rot.Dim+l]) * float64(rot.Matrix[j*rot.Dim+l])
			}
			if i == j {
				want = 1
			}
			if math.Abs(dot-want) > 1e-5 {
				t.Fatalf("directions %d and %d: product %v", i, j, dot)
			}
		}
		row := rot.Matrix[i*rot.Dim : (i+1)*rot.Dim]
		if lo, hi := slices.Min(row), slices.Max(row); -lo > hi+1e-6 {
			t.Fatalf("direction %d has entries from %v to %v", i, lo, hi)
		}
	}
}

// variances of the rotated rows, coordinate by coordinate.
func variances(rot *Rotation, rows table) []float64 {
	columns := make([][]float64, rot.R)
	out := make([]float32, rot.R)
	for _, x := range rows {
		rot.Apply(x, out)
		for i, v := range out {
			columns[i] = append(columns[i], float64(v))
		}
	}
	v := make([]float64, rot.R)
	for i, c := range columns {
		v[i] = stat.PopVariance(c, nil)
	}
	return v
}

// reference principal components, by gonum's singular values of the rows.
func reference(rows table) (vectors *mat.Dense, values []float64) {
	x := mat.NewDense(rows.Len(), rows.Dim(), nil)
	for i, row := range rows {
		for j, v := range row {
			x.Set(i, j, float64(v))
		}
	}
	var pc stat.PC
	if !pc.PrincipalComponents(x, nil) {
		panic("no principal components")
	}
	vectors = new(mat.Dense)
	pc.VectorsTo(vectors)
	values = pc.VarsTo(nil)
	for i := range values {
		values[i] *= float64(rows.Len()-1) / float64(rows.Len())
	}
	return vectors, values
}

// Both ways of finding the directions, whole decomposition and subspace
// iteration, agree with gonum's.
func TestPCAEqualsReference(t *testing.T) {
	for name, c := range map[string]struct {
		rows table
		r    int
	}{
		"all coordinates": {
			stretched(1, 300, 20, 20, func(j int) float64 { return 10 * math.Pow(0.7, float64(j)) }), 20,
		},
		"leading": {stretched(2, 700, 70, 70, func(j int) float64 { return 5 / float64(j+1) }), 9},
		"leading of some": {
			stretched(4, 500, 300, 300, func(j int) float64 { return 10 * math.Pow(0.8, float64(j)) }), 12,
		},
		"of low rank": {
			stretched(5, 400, 280, 20, func(j int) float64 { return 10 * math.Pow(0.8, float64(j)) }), 15,
		},
		"many coordinates": {
			stretched(3, 90, denseLimit+50, 12, func(j int) float64 { return 10 * math.Pow(0.7, float64(j)) }), 6,
		},
	} {
		if testing.Short() && c.rows.Dim() == 300 {
			continue
		}
		rot := learnRotation(t, c.rows, c.r, 0)
		if rot.R != c.r || rot.Dim != c.rows.Dim() {
			t.Fatalf("%s: %d×%d", name, rot.R, rot.Dim)
		}
		checkDirections(t, rot)
		vectors, values := reference(c.rows)
		for i, v := range variances(rot, c.rows) {
			if math.Abs(v-values[i]) > 1e-3*values[i]+1e-9*values[0] {
				t.Errorf("%s: coordinate %d has variance %v, want %v", name, i, v, values[i])
			}
			dot := 0.0
			for l := range rot.Dim {
				dot += float64(rot.Matrix[i*rot.Dim+l]) * vectors.At(l, i)
			}
			if math.Abs(dot) < 0.999 {
				t.Errorf("%s: direction %d is %v along the reference", name, i, dot)
			}
		}
	}
}

// Where the spectrum is flat subspace iteration finds no exact directions, but
// what it finds is orthonormal and in the order of its variance.
func TestPCAOfFlatSpectrum(t *testing.T) {
	for _, d := range []int{60, 300, denseLimit + 1} {
		rows := gaussian(newRand(4), 120, d)
		rot := learnRotation(t, rows, 20, 0)
		checkDirections(t, rot)
		v := variances(rot, rows)
		_, values := reference(rows)
		sum, most := v[0], values[0]
		for i := 1; i < len(v); i++ {
			if v[i] > v[i-1]*(1+1e-5) {
				t.Errorf("%d coordinates: variance %d is %v after %v", d, i, v[i], v[i-1])
			}
			sum, most = sum+v[i], most+values[i]
		}
		if sum < 0.9*most {
			t.Errorf("%d coordinates: variance %v of %v", d, sum, most)
		}
	}
}

// A full rotation keeps distances, a part of one never lengthens them, and
// the mean goes to zero.
func TestRotationKeepsDistances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 40).Draw(t, "d")
		n := rapid.IntRange(1, 60).Draw(t, "n")
		r := rapid.IntRange(1, d+2).Draw(t, "r")
		rows := gaussian(newRand(rapid.Uint64().Draw(t, "data")), n, d)
		rot, err := PCA(context.Background(), rows, r, rapid.IntRange(0, n+1).Draw(t, "sample"), 3, 1)
		must(t, err)
		r = min(r, d)
		if rot.R != r {
			t.Fatalf("%d coordinates, want %d", rot.R, r)
		}
		a, b := make([]float32, r), make([]float32, r)
		rot.Apply(rot.Mean, a)
		if s := vector.Dot(a, a); s > 1e-8 {
			t.Fatalf("the mean lies at distance² %v", s)
		}
		for i := 1; i < n; i++ {
			rot.Apply(rows[i-1], a)
			rot.Apply(rows[i], b)
			before := math.Sqrt(float64(vector.L2Squared(rows[i-1], rows[i])))
			after := math.Sqrt(float64(vector.L2Squared(a, b)))
			slack := 1e-4*before + 1e-5 // near points differ in their last bits
			if after > before+slack || r == d && after < before-slack {
				t.Fatalf("distance %v becomes %v with %d of %d coordinates", before, after, r, d)
			}
		}
	})
}

func TestPCADependsOnTheSeedOnly(t *testing.T) {
	for _, d := range []int{75, 280, denseLimit + 1} {
		rows := gaussian(newRand(5), 150, d)
		want := learnRotation(t, rows, 8, 80)
		for _, procs := range []int{1, 2, 7} {
			old := runtime.GOMAXPROCS(procs)
			for _, workers := range []int{0, 1, 7} {
				got, err := PCA(context.Background(), rows, 8, 80, 1, workers)
				must(t, err)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%d coordinates, %d processors, %d workers: another rotation", d, procs, workers)
				}
			}
			runtime.GOMAXPROCS(old)
		}
		if got, err := PCA(context.Background(), rows, 8, 80, 2, 1); err != nil || reflect.DeepEqual(got, want) {
			t.Errorf("%d coordinates: another seed draws the same sample, error %v", d, err)
		}
		// A sample of all rows needs no random draw.
		all, more := learnRotation(t, rows, 8, 150), learnRotation(t, rows, 8, 0)
		if !reflect.DeepEqual(all, more) {
			t.Errorf("%d coordinates: the sample of all rows is not all rows", d)
		}
	}
}

func TestPCADegenerateInputs(t *testing.T) {
	rng := newRand(6)
	for name, rows := range map[string]table{
		"one row":                    gaussian(rng, 1, 6),
		"one coordinate":             gaussian(rng, 30, 1),
		"equal rows":                 levelled(rng, 40, 5, 1),
		"fewer rows than directions": gaussian(rng, 3, 9),
		"equal rows of some length":  levelled(rng, 20, 300, 1),
		"few rows of some length":    gaussian(rng, 4, 300),
		"one long row":               gaussian(rng, 1, denseLimit+1),
		"equal long rows":            levelled(rng, 20, denseLimit+1, 1),
		"few long rows":              gaussian(rng, 3, denseLimit+1),
	} {
		t.Run(name, func(t *testing.T) {
			rot := learnRotation(t, rows, 5, 0)
			if rot.R != min(5, rows.Dim()) {
				t.Fatalf("%d directions", rot.R)
			}
			checkDirections(t, rot)
		})
	}
}

func TestPCARefuses(t *testing.T) {
	ctx := context.Background()
	good := gaussian(newRand(7), 30, 4)
	bad := func(d int, v float32) table {
		rows := gaussian(newRand(7), 30, d)
		rows[12][2] = v
		return rows
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for name, rows := range map[string]table{
		"empty": {}, "NaN": bad(4, nan), "infinity": bad(4, inf), "NaN in a long row": bad(denseLimit+1, nan),
		"overflow": bad(4, math.MaxFloat32),
	} {
		if rot, err := PCA(ctx, rows, 2, 0, 1, 1); !errors.Is(err, ErrParams) || rot != nil {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := PCA(ctx, nil, 2, 0, 1, 1); !errors.Is(err, ErrParams) {
		t.Errorf("nil: error %v", err)
	}
	if _, err := PCA(ctx, good, 0, 0, 1, 1); !errors.Is(err, ErrParams) {
		t.Errorf("no directions: error %v", err)
	}
}

func TestPCACancellation(t *testing.T) {
	for _, d := range []int{40, denseLimit + 1} {
		rows := gaussian(newRand(8), 3*checkEvery, d)
		for _, at := range []int64{1, checkEvery + 5, 3*checkEvery + 5, 6*checkEvery - 5} {
			ctx, cancel := context.WithCancel(context.Background())
			w := &tripwire{table: rows, cancel: cancel}
			w.left.Store(at)
			rot, err := PCA(ctx, w, 5, 0, 1, 2)
			if !errors.Is(err, context.Canceled) || rot != nil {
				t.Errorf("%d coordinates, cancelled at row %d: error %v", d, at, err)
			}
			if after := w.after.Load(); after > checkEvery {
				t.Errorf("%d coordinates, cancelled at row %d: %d more rows read", d, at, after)
			}
			cancel()
		}
	}
}

func TestApplyAllocatesNothing(t *testing.T) {
	rows := gaussian(newRand(9), 50, 30)
	rot := learnRotation(t, rows, 12, 0)
	out := make([]float32, 12)
	if n := testing.AllocsPerRun(50, func() { rot.Apply(rows[3], out) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
