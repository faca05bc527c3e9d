package vectors

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/anndb/anndb/internal/par"
)

// Generator makes rows of 128 coordinates that are clustered and of low
// intrinsic dimension, as embeddings are: a row is a cluster's centre, which
// lies in a subspace of 24 directions common to all, plus a point of the
// cluster's own subspace of 24 directions whose scales fall, plus a little
// noise in all coordinates. Sizes of clusters follow a power law. Row i depends
// on the seed and on i only, so a smaller set is the beginning of a larger one
// and rows can be made in any order.
type Generator struct {
	seed    uint64
	centres [][]float64
	bases   [][][]float64 // by cluster, direction
	spread  []float64
	chance  []float64 // cumulated
}

const (
	// GenDim is the number of coordinates of generated rows.
	GenDim      = 128
	genClusters = 256
	genCommon   = 24
	genOwn      = 24
	genNoise    = 0.05
)

// NewGenerator returns the generator of a seed.
func NewGenerator(seed uint64) *Generator {
	g := &Generator{seed: seed}
	r := rand.New(rand.NewPCG(seed, 0))
	common := directions(r, genCommon)
	total := 0.0
	for c := range genClusters {
		centre := make([]float64, GenDim)
		for j, d := range common {
			add(centre, d, r.NormFloat64()*2/math.Sqrt(1+float64(j)/4))
		}
		g.centres = append(g.centres, centre)
		g.bases = append(g.bases, directions(r, genOwn))
		g.spread = append(g.spread, 0.6+0.8*r.Float64())
		total += math.Pow(float64(c+1), -0.5)
		g.chance = append(g.chance, total)
	}
	for c := range g.chance {
		g.chance[c] /= total
	}
	return g
}

// directions are n random unit vectors; in 128 dimensions they are nearly
// orthogonal.
func directions(r *rand.Rand, n int) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		v := make([]float64, GenDim)
		sum := 0.0
		for j := range v {
			v[j] = r.NormFloat64()
			sum += float64(v[j] * v[j])
		}
		for j := range v {
			v[j] /= math.Sqrt(sum)
		}
		out[i] = v
	}
	return out
}

// add adds a times d to v. The conversion forbids fused multiply-add, so rows
// are the same on every processor.
func add(v, d []float64, a float64) {
	for j := range v {
		v[j] += float64(a * d[j])
	}
}

// row writes row i of a stream; corpus, test and validation rows are streams 1,
// 2 and 3.
func (g *Generator) row(stream, i uint64, out []float32) {
	r := rand.New(rand.NewPCG(g.seed^stream<<56, i))
	u := r.Float64()
	c := 0
	for lo, hi := 0, genClusters-1; ; {
		c = (lo + hi) / 2
		if lo >= hi {
			break
		}
		if g.chance[c] < u {
			lo = c + 1
		} else {
			hi = c
		}
	}
	v := make([]float64, GenDim)
	copy(v, g.centres[c])
	for j, d := range g.bases[c] {
		add(v, d, r.NormFloat64()*g.spread[c]/math.Sqrt(1+float64(j)/6))
	}
	for j := range v {
		out[j] = float32(v[j] + float64(genNoise*r.NormFloat64()))
	}
}

// Rows are n rows of a stream, made on all processors.
func (g *Generator) Rows(stream uint64, n int) []float32 {
	out := make([]float32, n*GenDim)
	_ = par.Each(context.Background(), par.Work{N: n, Grain: 64}, func(i int) error {
		g.row(stream, uint64(i), out[i*GenDim:(i+1)*GenDim])
		return nil
	})
	return out
}
