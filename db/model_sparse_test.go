package db_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/kind/lcifindex"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// createSparse makes a sparse collection, in which a row was once that had all
// features, so that label models know all.
func (x *machine) createSparse(t *rapid.T) {
	ctx := context.Background()
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	named := rapid.Bool().Draw(t, "named")
	schema := db.Schema{Sparse: true}
	if named {
		schema.Named = true
	}
	_, err := x.d.Create(ctx, name, schema)
	if x.m[name] != nil {
		if !errors.Is(err, db.ErrExists) {
			t.Fatalf("create of an existing collection: %v", err)
		}
		return
	}
	all := vector.Sparse{}
	for f := range uint32(dbtest.Features) {
		all.Index, all.Value = append(all.Index, f), append(all.Value, 1)
	}
	c := &modelColl{sparse: true, named: named, rows: map[string]modelRow{}, indexes: map[string]string{}}
	put := func(b *db.Tx) error { return b.Collection(name).Put(c.row("all", modelRow{sparse: all})) }
	del := func(b *db.Tx) error { return b.Collection(name).Delete([]byte("all")) }
	dbtest.Must(t, errors.Join(err, x.d.Update(ctx, put), x.d.Update(ctx, del)))
	c.next = 1
	x.m[name] = c
}

// row is a model's row as the database takes it.
func (c *modelColl) row(key string, r modelRow) db.Row {
	out := db.Row{Key: []byte(key), Vector: r.vec, Labels: r.labels, Payload: r.payload}
	switch {
	case c.named:
		out.Features = dbtest.Named(r.sparse)
	case c.sparse:
		out.Sparse = r.sparse
	}
	return out
}

// sparseEqual says whether the features of a row are the model's.
func (c *modelColl) sparseEqual(r db.Row, want modelRow) bool {
	if !c.named {
		return slices.Equal(r.Sparse.Index, want.sparse.Index) && slices.Equal(r.Sparse.Value, want.sparse.Value) && len(r.Features) == 0
	}
	got, expect := map[string]float32{}, map[string]float32{}
	for _, f := range r.Features {
		got[f.Name] = f.Value
	}
	for _, f := range dbtest.Named(want.sparse) {
		expect[f.Name] = f.Value
	}
	return len(r.Features) == len(expect) && maps.Equal(got, expect) && r.Sparse.Len() == 0
}

// cosine is that of two rows, in float64.
func (c *modelColl) cosine(a, b modelRow) float64 {
	if !c.sparse {
		d, _ := modelDistance(vector.Cosine, a.vec, b.vec)
		return 1 - d
	}
	dot, aa, bb := vector.DotSparse(a.sparse, b.sparse), a.sparse.Norm(), b.sparse.Norm()
	if dot == 0 {
		return 0
	}
	return dot / aa / bb
}

// sparseSearches asks the exact scan and all indexes of a sparse collection.
func sparseSearches(s *db.Snapshot, name string, c *modelColl, seed uint64) error {
	ctx := context.Background()
	x := modelRow{sparse: dbtest.Sparse(seed)}
	q := db.Query{Sparse: x.sparse}
	if c.named {
		q = db.Query{Features: dbtest.Named(x.sparse)}
	}
	if len(c.rows) == 0 {
		hits, _, err := dbtest.Nearest(ctx, s.Collection(name), q, 1, &db.SearchOptions{Index: db.Flat})
		if err != nil || len(hits) > 0 {
			return fmt.Errorf("search of an empty collection: %d hits, %v", len(hits), err)
		}
		return nil
	}
	options := []db.SearchOptions{{Index: db.Flat}, {Index: db.Flat, Where: filter.HasLabel("red")}}
	for index, kind := range c.indexes {
		if kind == postingsindex.Name {
			options = append(options, db.SearchOptions{Index: index}, db.SearchOptions{Index: index, Where: filter.HasLabel("red")})
		}
	}
	for _, o := range options {
		for _, k := range []int{1 + int(seed%5), len(c.rows)} {
			hits, _, err := dbtest.Nearest(ctx, s.Collection(name), q, k, &o)
			if err == nil {
				err = mustSparseNeighbors(c, x, k, func(r modelRow) bool { return o.Where == nil || slices.Contains(r.labels, "red") }, hits)
			}
			if err != nil {
				return fmt.Errorf("search %+v, k = %d: %w", o, k, err)
			}
		}
	}
	return predictionsEqual(s, name, c, x, q)
}

// mustSparseNeighbors checks an exact answer of a sparse search.
func mustSparseNeighbors(c *modelColl, q modelRow, k int, passes func(modelRow) bool, hits []db.Hit) error {
	var all []float64
	for _, r := range c.rows {
		if x := c.cosine(q, r); x > 0 && passes(r) {
			all = append(all, 1-x)
		}
	}
	slices.Sort(all)
	if len(hits) != min(k, len(all)) {
		return fmt.Errorf("%d hits, want %d of %d", len(hits), k, len(all))
	}
	seen := map[string]bool{}
	for i, h := range hits {
		r, ok := c.rows[string(h.Key)]
		switch {
		case !ok || !passes(r) || seen[string(h.Key)] || r.num != h.Row:
			return fmt.Errorf("hit %d is %q, row %d, which is no possible answer or came twice", i, h.Key, h.Row)
		case math.Abs(float64(h.Distance)-(1-c.cosine(q, r))) > 1e-5 || math.Abs(float64(h.Distance)-all[i]) > 1e-5:
			return fmt.Errorf("hit %d: distance %g of %q, want %g, the scan has %g", i, h.Distance, h.Key, 1-c.cosine(q, r), all[i])
		case i > 0 && h.Distance < hits[i-1].Distance:
			return fmt.Errorf("hit %d: distance %g after %g", i, h.Distance, hits[i-1].Distance)
		}
		seen[string(h.Key)] = true
	}
	return nil
}

// predictionsEqual asks the label models. With all rows as neighbours, those of
// kind lcif must say what the model says of the rows there are now.
func predictionsEqual(s *db.Snapshot, name string, c *modelColl, x modelRow, q db.Query) error {
	ctx := context.Background()
	for index, kind := range c.indexes {
		if kind != lcifindex.Name && !isTree(kind) {
			continue
		}
		o := &db.PredictOptions{Index: index}
		if kind == lcifindex.Name {
			o.Params = &lcif.Params{K: 1000, Lambda: 1, Top: 100}
		}
		got, _, err := dbtest.Predict(ctx, s.Collection(name), q, o)
		if err != nil {
			return fmt.Errorf("predict by %q: %w", index, err)
		}
		if kind != lcifindex.Name {
			continue
		}
		want, total := map[string]float64{}, 0.0
		for _, r := range c.rows {
			if sim := c.cosine(x, r); sim > 0 {
				total += sim
				for _, l := range r.labels {
					want[l] += sim
				}
			}
		}
		for _, p := range got {
			if len(want) == 0 {
				// No neighbor has a label: scores are the labels' shares of the rows
				// that there were when the model was built or maintained.
				if !(p.Score >= 0 && p.Score <= 1) {
					return fmt.Errorf("predict by %q without evidence: %q has the score %g", index, p.Label, p.Score)
				}
				continue
			}
			if math.Abs(float64(p.Score)-want[p.Label]/total) > 1e-4 {
				return fmt.Errorf("predict by %q: %q has the score %g, want %g", index, p.Label, p.Score, want[p.Label]/total)
			}
			delete(want, p.Label)
		}
		for l, score := range want {
			if score/total > 1e-6 {
				return fmt.Errorf("predict by %q: label %q of score %g is missing", index, l, score/total)
			}
		}
	}
	return nil
}

// sparseBuild is options for an index of a sparse collection, or for a label
// model of any.
func (c *modelColl) sparseBuild(t *rapid.T) (string, index.Options) {
	kinds := []string{lcifindex.Name, string(budget.PT), string(budget.AT)}
	if c.sparse {
		kinds = append(kinds, postingsindex.Name, postingsindex.Name, postingsindex.Name)
	}
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	switch kind {
	case postingsindex.Name:
		return kind, &index.Postings{}
	case lcifindex.Name:
		return kind, &index.LCIF{Params: &lcif.Params{K: 3, Lambda: 1}}
	}
	p := budget.Params{BAC: budget.BACParams{Budget: 4, Rounds: 3}}
	if kind == string(budget.AT) {
		p.MinPositive = 2
	}
	return kind, &index.Trees{Kind: kind, Params: p}
}

// labelled says whether a row has a label.
func (c *modelColl) labelled() bool {
	for _, r := range c.rows {
		if len(r.labels) > 0 {
			return true
		}
	}
	return false
}

// isTree reports whether indexes of a kind are budgeted trees.
func isTree(kind string) bool {
	return kind == "labeltree" || kind == "sbt" || kind == "pt" || kind == "at"
}
