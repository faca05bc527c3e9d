package vectors

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/anndb/anndb/internal/par"
)

// Generator makes the rows of a law. Row i depends on the law, the seed and i only, so a smaller set
// is the beginning of a larger one and rows can be made in any order.
type Generator struct {
	law     Law
	seed    uint64
	centres [][]float64
	bases   [][][]float64 // by cluster, direction
	spread  []float64
	chance  []float64 // cumulated
}

// GenDim is the number of coordinates of generated rows, unless their law has another.
const GenDim = 128

// NewGenerator returns the generator of a law and a seed.
func NewGenerator(law Law, seed uint64) *Generator {
	if law.Dim == 0 {
		law.Dim = GenDim
	}
	g := &Generator{law: law, seed: seed}
	r := rand.New(rand.NewPCG(seed, 0))
	common := directions(r, law.Common, law.Dim)
	total := 0.0
	for c := range law.Clusters {
		centre := make([]float64, law.Dim)
		for j, d := range common {
			add(centre, d, r.NormFloat64()*law.Centre/math.Sqrt(1+float64(j)/4))
		}
		if len(common) == 0 {
			for j := range centre {
				centre[j] = float64(law.Centre * r.NormFloat64())
			}
		}
		g.centres = append(g.centres, centre)
		g.bases = append(g.bases, directions(r, law.Own, law.Dim))
		g.spread = append(g.spread, 0.6+0.8*r.Float64())
		total += math.Pow(float64(c+1), -law.Power)
		g.chance = append(g.chance, total)
	}
	for c := range g.chance {
		g.chance[c] /= total
	}
	return g
}

// Dim returns the number of coordinates of the rows.
func (g *Generator) Dim() int { return g.law.Dim }

// directions returns n random unit vectors of dim coordinates; in 128 dimensions they are nearly orthogonal.
func directions(r *rand.Rand, n, dim int) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		v := make([]float64, dim)
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

// add adds a times d to v. The conversion forbids fused multiply-add, so rows are the same on every
// processor.
func add(v, d []float64, a float64) {
	for j := range v {
		v[j] += float64(a * d[j])
	}
}

// row writes row i of a stream; corpus, test and validation rows are streams 1, 2 and 3.
func (g *Generator) row(stream, i uint64, out []float32) {
	r := rand.New(rand.NewPCG(g.seed^stream<<56, i))
	c, _ := slices.BinarySearch(g.chance, r.Float64())
	c = min(c, len(g.chance)-1)
	if g.law.Copies > 0 && r.Float64() < g.law.Copies {
		// The copied rows of a cluster are few, so that each is copied many times.
		r = rand.New(rand.NewPCG(g.seed, uint64(c)<<8|r.Uint64N(1<<4)))
	}
	scale := g.scale(r)
	v := slices.Clone(g.centres[c])
	for j, d := range g.bases[c] {
		add(v, d, scale*r.NormFloat64()*g.spread[c]/math.Sqrt(1+float64(j)/g.law.Fall))
	}
	for j := range v {
		out[j] = float32(v[j] + float64(scale*g.law.Noise*r.NormFloat64()))
	}
}

// scale returns the factor of a row's offset from its centre.
func (g *Generator) scale(r *rand.Rand) float64 {
	scale := 1.0
	if n := g.law.Tails; n > 0 {
		sum := 0.0
		for range n {
			x := r.NormFloat64()
			sum += float64(x * x)
		}
		scale = math.Sqrt(float64(n) / sum)
	}
	if g.law.Inner > 0 && r.Float64() < g.law.Inner {
		scale /= 2
	}
	return scale
}

// Rows are the first n rows of a stream, made on all processors.
func (g *Generator) Rows(stream uint64, n int) []float32 {
	out := make([]float32, n*g.law.Dim)
	g.Fill(stream, 0, out)
	return out
}

// Fill sets out to the rows of a stream from a row on.
func (g *Generator) Fill(stream uint64, first int, out []float32) {
	d := g.law.Dim
	_ = par.Each(context.Background(), par.Work{N: len(out) / d, Grain: 64}, func(i int) error {
		g.row(stream, uint64(first+i), out[i*d:(i+1)*d])
		return nil
	})
}
