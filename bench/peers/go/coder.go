package main

import (
	"bufio"
	"context"
	"errors"
	"math/rand"
	"os"

	"github.com/anndb/anndb/bench/child"
	"github.com/coder/hnsw"
)

// coder is github.com/coder/hnsw. It builds on one goroutine, whatever the
// number of threads: adding is not safe for several.
type coder struct{ g *hnsw.Graph[uint32] }

func (c *coder) build(_ context.Context, base *child.Rows, o child.Words, _ int) error {
	m, err := o.Int("M", 16)
	if err != nil {
		return err
	}
	c.g = hnsw.NewGraph[uint32]()
	c.g.M, c.g.Ml, c.g.EfSearch = m, 0.25, 200
	c.g.Rng = rand.New(rand.NewSource(1))
	c.g.Distance = hnsw.EuclideanDistance
	if o["metric"] == "cosine" {
		c.g.Distance = hnsw.CosineDistance
	}
	for i := range base.N {
		c.g.Add(hnsw.MakeNode(uint32(i), base.Float32(i)))
	}
	return nil
}

func (c *coder) save(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	return errors.Join(c.g.Export(w), w.Flush(), f.Close())
}

func (c *coder) open(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	c.g = hnsw.NewGraph[uint32]()
	return c.g.Import(bufio.NewReaderSize(f, 1<<20))
}

func (c *coder) set(o child.Words) error {
	ef, err := o.Int("ef", 20)
	c.g.EfSearch = ef
	return err
}

func (c *coder) search(q []float32, k int, dst []uint32) ([]uint32, error) {
	for _, n := range c.g.Search(q, k) {
		dst = append(dst, n.Key)
	}
	return dst, nil
}
