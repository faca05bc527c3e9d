package query

import (
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// fashion reads the images of an idx file of Fashion-MNIST, at most n.
func fashion(b *testing.B, name string, n int) *matrix {
	b.Helper()
	dir := os.Getenv("ANNDB_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	f, err := os.Open(filepath.Join(dir, "fashion-mnist", name))
	if err != nil {
		b.Skipf("SKIPPED: nothing was measured, since %v; ANNDB_DATA names the folder with the data sets", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(b, err)
	all, err := io.ReadAll(z)
	must(b, err)
	const head, d = 16, 784
	n = min(n, (len(all)-head)/d)
	m := &matrix{make([]float32, n*d), n, d}
	for i := range m.data {
		m.data[i] = float32(all[head+i])
	}
	return m
}

// nearest computes label lists. ANNDB_LABELS may name a folder where lists are
// kept from run to run: those of the whole corpus take minutes.
func nearest(b *testing.B, corpus, queries *matrix, k int) *labels.Neighbors {
	b.Helper()
	n := corpus.n
	var ask labels.Rows
	if queries != nil {
		n, ask = queries.n, queries
	}
	file := ""
	if dir := os.Getenv("ANNDB_LABELS"); dir != "" {
		file = filepath.Join(dir, fmt.Sprintf("fashion-%d-%d-%d.u32", corpus.n, n, k))
		if data, err := os.ReadFile(file); err == nil && len(data) == 4*n*k {
			ids := make([]uint32, n*k)
			for i := range ids {
				ids[i] = binary.LittleEndian.Uint32(data[4*i:])
			}
			return &labels.Neighbors{N: n, K: k, IDs: ids}
		}
	}
	lists, err := labels.ExactNeighbors(context.Background(), corpus, ask, k, 2, nil)
	must(b, err)
	if file != "" {
		data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(lists.IDs))), 4*len(lists.IDs))
		must(b, os.WriteFile(file, data, 0o644))
	}
	return lists
}

// recall is the share of the true neighbours among the answers.
func recall(found []vector.Neighbor, truth []uint32) int {
	n := 0
	for _, f := range found {
		for _, t := range truth {
			if f.ID == t {
				n++
			}
		}
	}
	return n
}

// fashionView builds the pipeline over the training images. Without
// ANNDB_LABELS the corpus is its first 10,000 images, which take a few seconds
// to label.
func fashionView(b *testing.B) (v *View, queries *matrix, truth *labels.Neighbors) {
	b.Helper()
	n, depth := 10_000, 10
	if os.Getenv("ANNDB_LABELS") != "" {
		n, depth = 60_000, 13
	}
	corpus := fashion(b, "train-images-idx3-ubyte.gz", n)
	queries = fashion(b, "t10k-images-idx3-ubyte.gz", 1000)
	truth = nearest(b, corpus, queries, 100)
	v = build(b, corpus, spec{
		metric: vector.L2, labelsK: 50, rotate: 64, sketch: 64, hops: 16, bytes: true, shift: 10,
		forest: forest.Params{Kind: forest.KD, Trees: 16, Depth: depth, Natural: true, Members: true, Seed: 1},
		lists:  nearest(b, corpus, nil, 50),
	})
	return v, queries, truth
}

// BenchmarkFashion searches Fashion-MNIST for the 10 nearest training images
// of the first 1,000 test images, by the full pipeline and by the paper's own
// methods, and reports recall beside the time.
func BenchmarkFashion(b *testing.B) {
	const k = 10
	v, queries, truth := fashionView(b)
	run := func(name string, p Params) {
		p.K = k
		b.Run(name, func(b *testing.B) {
			searcher := NewSearcher()
			var dst []vector.Neighbor
			var hits, exact int
			b.ReportAllocs()
			for i := range queries.n {
				found, stats, err := searcher.Search(context.Background(), v, queries.row(i), &p, dst[:0])
				must(b, err)
				hits += recall(found, truth.Row(i)[:k])
				exact += stats.Exact
				dst = found
			}
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				dst, _, _ = searcher.Search(context.Background(), v, queries.row(i%queries.n), &p, dst[:0])
			}
			b.ReportMetric(float64(hits)/float64(k*queries.n), "recall")
			b.ReportMetric(float64(exact)/float64(queries.n), "exact/op")
		})
	}
	for _, tau := range []float64{0.02, 0.05, 0.1} {
		run(fmt.Sprintf("natural/trees=16/tau=%g", tau), Params{Trees: 16, Tau: tau})
		run(fmt.Sprintf("sketch/trees=8/tau=%g", tau), Params{Trees: 8, Tau: tau, Sketch: true, R: 40})
	}
	for _, r := range []int{20, 30, 60, 120} {
		run(fmt.Sprintf("full/r=%d", r), Params{Trees: 4, Sketch: true, R: r, Hops: 1, HopKeep: 12})
	}
}

// BenchmarkTune tunes on Fashion-MNIST and reports the curve at some recalls.
func BenchmarkTune(b *testing.B) {
	v, queries, truth := fashionView(b)
	var q [][]float32
	var want [][]uint32
	for i := range queries.n {
		q, want = append(q, queries.row(i)), append(want, truth.Row(i))
	}
	for b.Loop() {
		c, err := Tune(context.Background(), v, QuerySet{Queries: q, Truth: want}, TuneOptions{K: 10})
		must(b, err)
		for _, target := range []float64{0.8, 0.9, 0.95, 0.99} {
			i := slices.IndexFunc(c.Points, func(p Point) bool { return p.Recall >= target })
			if i < 0 {
				continue
			}
			b.ReportMetric(c.Points[i].Micros, fmt.Sprintf("us@%g", target))
			settings, _ := json.Marshal(c.Points[i].Params)
			b.Logf("%.4f %.1f us %s", c.Points[i].Recall, c.Points[i].Micros, settings)
		}
	}
}

// mergeSteps draws the new rows of the steps of a beam search: as a search advances, lists lead to
// better rows, and the beam's last row is better too. Among word vectors a step has about 48 fresh
// rows, of which 16 enter the beam; among texts it has 15.
func mergeSteps(rng *rand.Rand, width, fresh int) (steps [][]uint32, scores [][]float32) {
	n := 2 + width/beamStep
	for i := range n {
		ids, x := make([]uint32, fresh), make([]float32, fresh)
		for j := range ids {
			ids[j] = rng.Uint32N(1 << 20)
			x[j] = float32(rng.Float64() * (1 - 0.7*float64(i)/float64(n)))
		}
		steps, scores = append(steps, ids), append(scores, x)
	}
	return steps, scores
}

// BenchmarkMerge merges the steps of searches into beams. The time is that of a step.
func BenchmarkMerge(b *testing.B) {
	const searches = 64 // so many that the processor cannot learn their branches
	for _, x := range [][2]int{{40, 48}, {170, 48}, {660, 48}, {130, 15}} {
		width, fresh := x[0], x[1]
		b.Run(fmt.Sprintf("width=%d/fresh=%d", width, fresh), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			var ids [searches][][]uint32
			var scores [searches][][]float32
			for i := range ids {
				ids[i], scores[i] = mergeSteps(rng, width, fresh)
			}
			s := NewSearcher()
			b.ReportAllocs()
			for i, step := 0, 0; b.Loop(); step++ {
				if step == len(ids[i]) {
					i, step = (i+1)%searches, 0
				}
				if step == 0 {
					s.beam.reset(width)
				}
				s.scores = scores[i][step]
				s.merge(ids[i][step], width)
			}
		})
	}
}
