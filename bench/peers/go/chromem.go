package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/anndb/anndb/bench/child"
	chromemgo "github.com/philippgille/chromem-go"
)

// chromem is github.com/philippgille/chromem-go, which compares with every
// row, by cosine, on as many goroutines as there are processors.
type chromem struct {
	db   *chromemgo.DB
	rows *chromemgo.Collection
}

var errText = errors.New("there is no text to embed")

func embed(context.Context, string) ([]float32, error) { return nil, errText }

func (c *chromem) build(ctx context.Context, base *child.Rows, _ child.Words, threads int) (err error) {
	c.db = chromemgo.NewDB()
	if c.rows, err = c.db.CreateCollection("rows", nil, embed); err != nil {
		return err
	}
	documents := make([]chromemgo.Document, base.N)
	for i := range documents {
		// The content may not be empty.
		documents[i] = chromemgo.Document{ID: strconv.Itoa(i), Embedding: base.Float32(i), Content: "-"}
	}
	return c.rows.AddDocuments(ctx, documents, threads)
}

func (c *chromem) save(path string) error { return c.db.ExportToFile(path, false, "") }

func (c *chromem) open(path string) error {
	c.db = chromemgo.NewDB()
	if err := c.db.ImportFromFile(path, ""); err != nil {
		return err
	}
	if c.rows = c.db.GetCollection("rows", embed); c.rows == nil {
		return errors.New("no collection in " + path)
	}
	return nil
}

func (c *chromem) set(child.Words) error { return nil }

func (c *chromem) search(q []float32, k int, dst []uint32) ([]uint32, error) {
	found, err := c.rows.QueryEmbedding(context.Background(), q, k, nil, nil)
	if err != nil {
		return dst, err
	}
	for _, r := range found {
		n, err := strconv.ParseUint(r.ID, 10, 32)
		if err != nil {
			return dst, err
		}
		dst = append(dst, uint32(n))
	}
	return dst, nil
}
