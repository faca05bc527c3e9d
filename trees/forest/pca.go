package forest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// Rotation maps vectors to their R leading principal coordinates,
// Matrix·(x − Mean), by descending variance. Axis-aligned splits on these coordinates
// are oblique in the original space and cost one projection per query for all trees
// (docs/ARCHITECTURE.md, section 6).
type Rotation struct {
	R, Dim int
	Mean   []float32 // Dim
	Matrix []float32 // R × Dim, orthonormal rows
	Bias   []float32 // R: Matrix·Mean
}

// Apply writes the R coordinates of x to out. O(R·Dim), no allocation.
func (r *Rotation) Apply(x, out []float32) {
	vector.MatVec(r.Matrix, r.R, r.Dim, x, out)
	for i, b := range r.Bias {
		out[i] -= b
	}
}

// coordinate returns coordinate i of x.
func (r *Rotation) coordinate(i int, x []float32) float32 {
	return vector.Dot(r.Matrix[i*r.Dim:(i+1)*r.Dim], x) - r.Bias[i]
}

// Leading returns the rotation to the n leading coordinates only, or to all if there
// are fewer. The arrays are shared.
func (r *Rotation) Leading(n int) *Rotation {
	n = min(n, r.R)
	return &Rotation{R: n, Dim: r.Dim, Mean: r.Mean, Matrix: r.Matrix[:n*r.Dim], Bias: r.Bias[:n]}
}

// denseLimit is the largest dimension for which PCA computes the covariance matrix.
// Above it a randomised subspace iteration works on the rows.
const denseLimit = 1600

// PCA learns the r leading principal coordinates of at most sample rows (all if
// sample < 1), drawn by seed. If r exceeds the dimension, PCA uses the dimension.
//
// Cost: up to 1,600 coordinates O(sample·d²) for the covariance and O(d³) for its
// eigenvectors (O(d²·r) if d is at least 256 and r at most d/6), above that
// O(sample·d·r). Errors: ErrParams, also for rows that are not finite or whose squares
// overflow, and the context's.
func PCA(ctx context.Context, rows labels.Rows, r, sample int, seed uint64, workers int) (*Rotation, error) {
	if rows == nil || rows.Len() == 0 || rows.Dim() < 1 || r < 1 {
		return nil, fmt.Errorf("%w: %d principal coordinates of no rows", ErrParams, r)
	}
	d := rows.Dim()
	r = min(r, d)
	rng := rand.New(rand.NewPCG(seed, 0x706361))
	var picked []int
	if sample < 1 || sample >= rows.Len() {
		for i := range rows.Len() {
			picked = append(picked, i)
		}
	} else {
		picked = rng.Perm(rows.Len())[:sample]
		slices.Sort(picked)
	}
	mean := make([]float64, d)
	buf := make([]float32, d)
	for at, i := range picked {
		if at%checkEvery == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("forest: pca: %w", ctx.Err())
		}
		x := rows.Row(i, buf)
		if j := vector.IsFinite(x); j >= 0 {
			return nil, fmt.Errorf("%w: coordinate %d of row %d is %v", ErrParams, j, i, x[j])
		}
		for j, v := range x {
			mean[j] += float64(v)
		}
	}
	for j := range mean {
		mean[j] /= float64(len(picked))
	}
	var basis *mat.Dense
	var err error
	if d <= denseLimit {
		basis, err = eigenBasis(ctx, rows, picked, mean, r, rng, workers)
	} else {
		basis, err = iterate(ctx, d, r, 4, byRows(ctx, rows, picked, mean), rng)
	}
	if err != nil {
		return nil, err
	}
	rot := &Rotation{
		R: r, Dim: d, Mean: make([]float32, d), Matrix: make([]float32, r*d), Bias: make([]float32, r),
	}
	for j, v := range mean {
		rot.Mean[j] = float32(v)
	}
	for i := range r {
		col := mat.Col(nil, i, basis)
		orient(col)
		var bias float64
		for j, v := range col {
			rot.Matrix[i*d+j] = float32(v)
			bias += float64(float32(v)) * float64(rot.Mean[j])
		}
		rot.Bias[i] = float32(bias)
	}
	return rot, nil
}

// orient sets the sign of a direction so that its largest entry is positive.
func orient(col []float64) {
	at := 0
	for j, v := range col {
		if math.Abs(v) > math.Abs(col[at]) {
			at = j
		}
	}
	if col[at] < 0 {
		for j := range col {
			col[j] = -col[j]
		}
	}
}

// eigenBasis returns the leading eigenvectors of the covariance, as columns.
func eigenBasis(
	ctx context.Context, rows labels.Rows, picked []int, mean []float64, r int, rng *rand.Rand, workers int,
) (*mat.Dense, error) {
	d := rows.Dim()
	cov, err := covariance(ctx, rows, picked, mean, workers)
	if err != nil {
		return nil, err
	}
	if d >= iterateFrom && iterateShare*r <= d {
		c := mat.NewSymDense(d, cov)
		return iterate(ctx, d, r, 8, func(q, out *mat.Dense) error {
			out.Mul(c, q)
			return nil
		}, rng)
	}
	return eigenvectors(cov, d, r)
}

// From iterateFrom coordinates on, if at most one in iterateShare of them is needed,
// subspace iteration is several times as fast as computing all eigenvectors.
const (
	iterateFrom  = 256
	iterateShare = 6
)

// iterate finds the r leading eigenvectors of a covariance by subspace iteration
// (Halko, Martinsson and Tropp 2011) with additional directions. multiply writes the
// covariance, or a multiple of it, times q to out. The result are the principal directions of
// the subspace found, which have almost the same variance as the true ones, and descending
// variances even if the spectrum is flat and the iteration has not converged.
func iterate(
	ctx context.Context, d, r, rounds int, multiply func(q, out *mat.Dense) error, rng *rand.Rand,
) (*mat.Dense, error) {
	width := min(d, r+r/4+8)
	q, next := mat.NewDense(d, width, nil), mat.NewDense(d, width, nil)
	for i := range d {
		for j := range width {
			q.Set(i, j, rng.NormFloat64())
		}
	}
	for range rounds {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("forest: pca: %w", err)
		}
		if err := multiply(q, next); err != nil {
			return nil, err
		}
		orthonormalise(next)
		q, next = next, q
	}
	if err := multiply(q, next); err != nil {
		return nil, err
	}
	within := mat.NewDense(width, width, nil)
	within.Mul(q.T(), next)
	basis, err := eigenvectors(within.RawMatrix().Data, width, r)
	if err != nil {
		return nil, err
	}
	out := new(mat.Dense)
	out.Mul(q, basis)
	return out, nil
}

// orthonormalise replaces the columns of m by orthonormal ones that span the same
// subspace, or a larger one if the columns are linearly dependent.
func orthonormalise(m *mat.Dense) {
	_, cols := m.Dims()
	// Call LAPACK's routines, since mat.QR would compute the square factor.
	a := m.RawMatrix()
	tau, work := make([]float64, cols), []float64{0}
	lapack64.Geqrf(a, tau, work, -1)
	work = make([]float64, max(int(work[0]), 32*cols))
	lapack64.Geqrf(a, tau, work, len(work))
	lapack64.Orgqr(a, tau, work, len(work))
}

// eigenvectors returns the r leading eigenvectors of an n × n covariance, as columns.
func eigenvectors(cov []float64, n, r int) (*mat.Dense, error) {
	var eig mat.EigenSym
	if !eig.Factorize(mat.NewSymDense(n, cov), true) {
		return nil, fmt.Errorf("%w: the covariance has no eigenvectors", ErrParams)
	}
	var all mat.Dense
	eig.VectorsTo(&all)
	basis := mat.NewDense(n, r, nil)
	for i := range r { // gonum sorts the eigenvalues in ascending order
		basis.SetCol(i, mat.Col(nil, n-1-i, &all))
	}
	return basis, nil
}

// covBlock is the number of rows of a partial covariance. The blocks depend on the
// data, not on the number of workers, so that the sum is always the same.
const covBlock = 256

// covariance sums centred outer products by blocks. It computes them as products of
// transposed blocks with the tile kernel that also computes neighbor lists.
func covariance(
	ctx context.Context, rows labels.Rows, picked []int, mean []float64, workers int,
) ([]float64, error) {
	d, n := rows.Dim(), len(picked)
	// Column-major: coordinate j of all picked rows, then coordinate j+1.
	columns := make([]float32, d*n)
	buf := make([]float32, d)
	for i, p := range picked {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("forest: pca: %w", ctx.Err())
		}
		for j, v := range rows.Row(p, buf) {
			columns[j*n+i] = float32(float64(v) - mean[j])
		}
	}
	cov := make([]float64, d*d)
	const tile = 32
	err := par.Ranges(ctx, par.Work{N: d, Grain: tile, Workers: workers}, func() func(lo, hi int) error {
		out := make([]float32, tile*tile)
		a, b := make([]float32, tile*covBlock), make([]float32, tile*covBlock)
		return func(lo, hi int) error {
			na := hi - lo
			// Compute the upper triangle; the lower one is copied from it below.
			for at := lo; at < d; at += tile {
				nb := min(tile, d-at)
				for from := 0; from < n; from += covBlock {
					m := min(covBlock, n-from)
					pack(a, columns[lo*n:hi*n], n, from, m)
					pack(b, columns[at*n:(at+nb)*n], n, from, m)
					vector.DotTile(a, na, b, nb, m, out)
					for i := range na {
						for j := range nb {
							cov[(lo+i)*d+at+j] += float64(out[i*nb+j])
						}
					}
				}
			}
			return nil
		}
	})
	if err != nil {
		return nil, fmt.Errorf("forest: pca: %w", err)
	}
	for i := range d {
		for j := i; j < d; j++ {
			c := cov[i*d+j] / float64(n)
			if math.IsInf(c, 0) || math.IsNaN(c) {
				return nil, fmt.Errorf("%w: the covariance of coordinates %d and %d overflows", ErrParams, i, j)
			}
			cov[i*d+j], cov[j*d+i] = c, c
		}
	}
	return cov, nil
}

// pack copies m values, from number from on, of each of the columns of n values to dst.
func pack(dst, columns []float32, n, from, m int) {
	for at := 0; at*n < len(columns); at++ {
		copy(dst[at*m:(at+1)*m], columns[at*n+from:])
	}
}

// byRows returns the multiplication by the covariance of rows that have too many coordinates to compute it.
func byRows(ctx context.Context, rows labels.Rows, picked []int, mean []float64) func(q,
	out *mat.Dense) error {
	const block = 512
	d := rows.Dim()
	buf := make([]float32, d)
	x := mat.NewDense(min(block, len(picked)), d, nil)
	return func(q, out *mat.Dense) error {
		out.Zero()
		for lo := 0; lo < len(picked); lo += block {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("forest: pca: %w", err)
			}
			hi := min(lo+block, len(picked))
			part := x.Slice(0, hi-lo, 0, d).(*mat.Dense)
			for i, p := range picked[lo:hi] {
				row := part.RawRowView(i)
				for j, v := range rows.Row(p, buf) {
					row[j] = float64(v) - mean[j]
				}
			}
			var y, z mat.Dense
			y.Mul(part, q)
			z.Mul(part.T(), &y)
			out.Add(out, &z)
		}
		return nil
	}
}
