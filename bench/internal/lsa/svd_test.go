package lsa

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// lowRank is a sparse random matrix with a clear spectrum: blocks of columns
// used by blocks of rows, of falling strength, and noise.
func lowRank(rows, cols, rank int, seed uint64) *Matrix {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &Matrix{Rows: rows, Cols: cols, Ptr: []int{0}}
	for i := range rows {
		topic := i % rank
		for c := range cols {
			switch {
			case c%rank == topic:
				s.Idx, s.Val = append(s.Idx, uint32(c)), append(s.Val, (2+rng.Float64())/float64(1+topic))
			case rng.IntN(20) == 0:
				s.Idx, s.Val = append(s.Idx, uint32(c)), append(s.Val, 0.05*rng.NormFloat64())
			}
		}
		s.Ptr = append(s.Ptr, len(s.Idx))
	}
	return s
}

func dense(s *Matrix) *mat.Dense {
	d := mat.NewDense(s.Rows, s.Cols, nil)
	for i := range s.Rows {
		for k := s.Ptr[i]; k < s.Ptr[i+1]; k++ {
			d.Set(i, int(s.Idx[k]), s.Val[k])
		}
	}
	return d
}

func TestSVDAgainstFull(t *testing.T) {
	for _, shape := range [][2]int{{200, 90}, {60, 150}} {
		const dims = 6
		a := lowRank(shape[0], shape[1], dims, 3)
		got, sigma, err := SVD(context.Background(), a, Options{Dims: dims, Rounds: 5, Seed: 7, Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		var full mat.SVD
		if !full.Factorize(dense(a), mat.SVDThin) {
			t.Fatal("reference SVD failed")
		}
		ref := full.Values(nil)
		var u mat.Dense
		full.UTo(&u)
		for j := range dims {
			if math.Abs(sigma[j]-ref[j]) > 1e-6*ref[0] {
				t.Errorf("%v: singular value %d is %g, want %g", shape, j, sigma[j], ref[j])
			}
		}
		// Inner products of projections do not depend on signs or rotations.
		for i := range 20 {
			for k := range i {
				var g, w float64
				for j := range dims {
					g += float64(got[i*dims+j]) * float64(got[k*dims+j])
					w += ref[j] * ref[j] * u.At(i, j) * u.At(k, j)
				}
				if math.Abs(g-w) > 1e-4*ref[0] {
					t.Fatalf("%v: product of rows %d and %d is %g, want %g", shape, i, k, g, w)
				}
			}
		}
	}
}

func TestSVDDeterministicAndErrors(t *testing.T) {
	a := lowRank(300, 80, 5, 9)
	one, _, err := SVD(context.Background(), a, Options{Dims: 5, Rounds: 3, Seed: 1, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	many, _, err := SVD(context.Background(), a, Options{Dims: 5, Rounds: 3, Seed: 1, Workers: 7})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(one, many) {
		t.Error("projections differ between 1 and 7 workers")
	}
	for _, dims := range []int{0, 81} {
		if _, _, err := SVD(context.Background(), a, Options{Dims: dims, Rounds: 3, Seed: 1, Workers: 1}); !errors.Is(err, ErrShape) {
			t.Errorf("%d dimensions: %v", dims, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := SVD(ctx, a, Options{Dims: 5, Rounds: 3, Seed: 1, Workers: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
