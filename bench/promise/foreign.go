package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/anndb/anndb/db"
)

// sampled is the number of queries that a database keeps of those that it was asked.
const sampled = 500

// foreign measures queries that are unlike the rows, before and after maintenance has measured the
// recall of a sample of such queries, none of which is measured here.
func (b *bench) foreign(ctx context.Context) (err error) {
	const name, corrected = "foreign queries", "foreign, sampled"
	if !b.only.MatchString(name) && !b.only.MatchString(corrected) {
		return nil
	}
	asked := b.asked
	defer func() { b.asked = asked }()
	mixed := b.mixed(len(asked) + sampled)
	b.asked = mixed[sampled:]
	if err := b.create(ctx, b.path+".foreign", sampled); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.drop()) }()
	if err := b.put(ctx, b.inOrder(min(b.set.Rows(), 100_000)), 0); err != nil {
		return err
	}
	if _, err := b.rows.Build(ctx, "main", nil, nil); err != nil {
		return err
	}
	if b.only.MatchString(name) {
		short := b.short
		if err := b.measure(ctx, scenario{name: name, restrict: everything}); err != nil {
			return err
		}
		b.short = short // the promise is for queries like the rows
		if err := b.again(ctx); err != nil {
			return err
		}
	}
	if err := b.use(ctx, mixed[:sampled]); err != nil {
		return err
	}
	if _, err := b.d.Maintain(ctx, 0, nil); err != nil {
		return err
	}
	return b.measure(ctx, scenario{name: corrected, restrict: everything})
}

// mixed returns queries that are unlike the rows: means of two held-out rows.
func (b *bench) mixed(n int) [][]float32 {
	r := rand.New(rand.NewPCG(3, 4))
	out := make([][]float32, n)
	for i := range out {
		x, y := b.asked[r.IntN(len(b.asked))], b.asked[r.IntN(len(b.asked))]
		q := make([]float32, b.set.Dim)
		for j := range q {
			q[j] = (x[j] + y[j]) / 2
		}
		out[i] = q
	}
	return out
}

// again opens the database of the bench again, which forgets the sample of its queries.
func (b *bench) again(ctx context.Context) (err error) {
	path := b.d.Path()
	if err := b.d.Close(); err != nil {
		return err
	}
	o := manual()
	o.SampleQueries = sampled
	if b.d, err = db.Open(ctx, path, o); err != nil {
		return err
	}
	b.rows = b.d.Collection("rows")
	return ctx.Err()
}

// use searches for queries as a user does.
func (b *bench) use(ctx context.Context, queries [][]float32) error {
	for i, q := range queries {
		if _, err := b.rows.Search(ctx, db.Query{Vector: q}, &db.SearchOptions{Index: "main"}); err != nil {
			return fmt.Errorf("query %d: %w", i, err)
		}
	}
	return nil
}
