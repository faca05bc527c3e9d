package lsa

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/anndb/anndb/internal/par"
)

// ErrShape is wrapped by the error for a matrix that is empty or too small for
// the requested number of dimensions.
var ErrShape = errors.New("lsa: matrix shape")

// oversample is the number of columns that the iteration has beyond the requested ones:
// with about ten, the wanted singular vectors converge in a few rounds (Halko,
// Martinsson and Tropp 2011, section 4).
const oversample = 12

// Options are the options of SVD.
type Options struct {
	Dims    int // singular vectors
	Rounds  int // of the iteration
	Seed    uint64
	Workers int // goroutines; all processors when below 1
	// Progress, if not nil, is called after every round.
	Progress func(done, total int)
}

// SVD projects the rows of a on its leading Dims right singular vectors:
// out[i*Dims+j] = sigma_j·u_ij, so inner products of the rows are those of the
// best rank-Dims approximation of a. It also returns the singular values,
// largest first. The method is randomized subspace iteration (Halko,
// Martinsson and Tropp 2011, algorithms 4.4 and 5.1): Rounds times multiply by
// AᵀA and re-orthonormalise. Deterministic per seed at any number of workers;
// singular vectors have the sign that the seed gave them. Cost:
// Rounds·(4·entries·Dims + 4·cols·Dims²) flops.
//
// Errors: ErrShape if Dims < 1 or the smaller side of a is below Dims; the
// context's error.
func SVD(ctx context.Context, a *Matrix, o Options) (out []float32, sigma []float64, err error) {
	dims, rounds, workers := o.Dims, o.Rounds, o.Workers
	if dims < 1 || min(a.Rows, a.Cols) < dims {
		return nil, nil, fmt.Errorf("%w: %d dimensions of a %d x %d matrix", ErrShape, dims, a.Rows, a.Cols)
	}
	l := min(dims+oversample, a.Rows, a.Cols)
	t := a.transpose()
	rng := rand.New(rand.NewPCG(o.Seed, 0x7376642d676f))
	z := general(a.Cols, l)
	for i := range z.Data {
		z.Data[i] = rng.NormFloat64()
	}
	y := general(a.Rows, l)
	orthonormalise(z)
	for round := range rounds {
		if err := multiply(ctx, a, z, y, workers); err != nil {
			return nil, nil, err
		}
		if err := multiply(ctx, t, y, z, workers); err != nil {
			return nil, nil, err
		}
		orthonormalise(z)
		if o.Progress != nil {
			o.Progress(round+1, rounds+1)
		}
	}
	if err := multiply(ctx, a, z, y, workers); err != nil {
		return nil, nil, err
	}
	// A ≈ Y·Zᵀ with orthonormal Z. With Y = Q·R and R = U·S·Vᵀ, the rows of
	// A·(Z·V) = Y·V are the wanted projections and S the singular values.
	var svd mat.SVD
	if !svd.Factorize(triangle(y), mat.SVDThin) {
		return nil, nil, fmt.Errorf("lsa: SVD of a %d x %d matrix did not converge", l, l)
	}
	sigma = svd.Values(nil)[:dims]
	var v mat.Dense
	svd.VTo(&v)
	res := general(a.Rows, l)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, y, v.RawMatrix(), 0, res)
	out = make([]float32, a.Rows*dims)
	for i := range a.Rows {
		for j := range dims {
			out[i*dims+j] = float32(res.Data[i*l+j])
		}
	}
	if o.Progress != nil {
		o.Progress(rounds+1, rounds+1)
	}
	return out, sigma, ctx.Err()
}

func general(rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float64, rows*cols)}
}

// multiply sets out = a·x. Every row of out is summed by one goroutine in
// column order, so the result does not depend on their number.
func multiply(ctx context.Context, a *Matrix, x, out blas64.General, workers int) error {
	return par.Each(ctx, par.Work{N: a.Rows, Grain: 128, Workers: workers}, func(i int) error {
		row := blas64.Vector{N: x.Cols, Inc: 1, Data: out.Data[i*out.Stride : i*out.Stride+x.Cols]}
		clear(row.Data)
		for k := a.Ptr[i]; k < a.Ptr[i+1]; k++ {
			c := int(a.Idx[k])
			blas64.Axpy(a.Val[k], blas64.Vector{N: x.Cols, Inc: 1, Data: x.Data[c*x.Stride : c*x.Stride+x.Cols]}, row)
		}
		return nil
	})
}

// factorise replaces a (rows >= cols) by its Householder QR form. mat.QR would
// do, but can only give the full rows x rows matrix Q back.
func factorise(a blas64.General) (tau []float64) {
	tau = make([]float64, a.Cols)
	work := []float64{0}
	lapack64.Geqrf(a, tau, work, -1)
	work = make([]float64, int(work[0]))
	lapack64.Geqrf(a, tau, work, len(work))
	return tau
}

// orthonormalise replaces the columns of a by an orthonormal basis of them.
func orthonormalise(a blas64.General) {
	tau := factorise(a)
	work := []float64{0}
	lapack64.Orgqr(a, tau, work, -1)
	work = make([]float64, int(work[0]))
	lapack64.Orgqr(a, tau, work, len(work))
}

// triangle is the factor R of a's QR form; a stays as it is.
func triangle(a blas64.General) mat.Matrix {
	c := general(a.Rows, a.Cols)
	copy(c.Data, a.Data)
	factorise(c)
	r := mat.NewDense(a.Cols, a.Cols, nil)
	for i := range a.Cols {
		for j := i; j < a.Cols; j++ {
			r.Set(i, j, c.Data[i*c.Stride+j])
		}
	}
	return r
}
