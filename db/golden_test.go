package db_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/internal/golden"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// testdata/golden.anndb.gz is a database of the current format, and testdata/golden.txt what it answers. A
// change that cannot read it changes the format; until the first release that is allowed, and both are written
// again by
//
//	go test ./db -run TestGolden -write-golden

// goldenRow is row i of a golden collection. It uses whole numbers and halves only, so that distances are
// exact on every machine; three coordinates vary, so that distances can be told by hand.
func goldenRow(coll string, i int, half float32) db.Row {
	r := db.Row{
		Key: fmt.Append(nil, "key-", i), Payload: fmt.Append(nil, "payload of ", i),
		Attributes: map[string]any{"n": i, "third": float64(i%3) / 2}, Labels: []string{fmt.Sprint("l", 9-i%3), fmt.Sprint("m", i/40)},
	}
	if coll == "inner" {
		r.Labels = r.Labels[:1]
	}
	switch dim := goldenSchemas[coll].Dim; {
	case dim > 0:
		r.Vector = make([]float32, dim)
		r.Vector[0], r.Vector[dim-1] = float32(i%7), float32(i*i%50)+half
		if dim > 2 {
			r.Vector[1] = float32(i)
		}
	case coll == "words":
		r.Features = []vector.Feature{
			{Name: fmt.Sprint("f", i%5), Value: float32(1 + i%3)}, {Name: fmt.Sprint("g", i%4), Value: 1},
		}
	default:
		for f := range uint32(9) {
			if (i*i+int(f)*i+int(f*f))%4 != 0 {
				r.Sparse.Index = append(r.Sparse.Index, f+uint32(i/40))
				r.Sparse.Value = append(r.Sparse.Value, float32(1+(i+int(f))%3))
			}
		}
	}
	return r
}

var goldenSchemas = map[string]db.Schema{
	"bytes": {Dim: 8192}, // 16 rows a chunk
	"float": {Dim: 3, Metric: vector.Cosine},
	"inner": {Dim: 4, Metric: vector.InnerProduct, Float32: true},
	"large": {Dim: kind.MaxDim, Metric: vector.Cosine}, // one chunk of floats
	"count": {Sparse: true},
	"words": {Named: true},
}

// goldenFile writes the golden database: sealed rows and others, replaced, deleted and changed ones, every kind
// of index, indexes that cover all rows, that have been maintained, and that have fresh rows.
func goldenFile(t *testing.T, path string) {
	ctx := t.Context()
	d, err := dbtest.Open(ctx, path, nil)
	dbtest.Must(t, err)
	put := func(coll string, from, to int, half float32) {
		var rows []db.Row
		for i := from; i < to; i++ {
			rows = append(rows, goldenRow(coll, i, half))
		}
		dbtest.Must(t, dbtest.Put(d, coll, rows...))
	}
	for _, coll := range slices.Sorted(maps.Keys(goldenRows)) {
		dbtest.Must(t, dbtest.Create(ctx, d, coll, goldenSchemas[coll]))
		put(coll, 0, goldenRows[coll], 0)
	}
	put("inner", 4, 6, 0.5) // replaced
	dbtest.Must(t, errors.Join(dbtest.Delete(d, "bytes", "key-3"), dbtest.Delete(d, "float", "key-9")))
	dbtest.Must(t, d.Update(ctx, func(tx *db.Tx) error { // a row of a chunk, and one of the tail
		return errors.Join(tx.Collection("bytes").SetLabels([]byte("key-1"), "changed"),
			tx.Collection("bytes").SetPayload([]byte("key-6"), []byte("changed")), tx.Collection("float").SetLabels([]byte("key-12")))
	}))
	forest := index.Forest{Trees: 2, Depth: 2, LeafNeighbors: 3, ListNeighbors: 2, Members: true,
		NoTune: true, Coordinates: 2, Seed: 1}
	dbtest.Builds(t, d, "float", "kd", &forest)
	forest.Learner, forest.NoRotation, forest.Coordinates = "rp", true, 0
	dbtest.Builds(t, d, "inner", "rp", &forest)
	model := &lcif.Params{K: 4, Lambda: 0.4, Beta: 1.5, Thresholds: &labels.Thresholds{Single: 0.2, KeepTop: true}}
	dbtest.Builds(t, d, "float", "plain", &index.LCIF{Params: model, Neighbors: db.Flat})
	dbtest.Builds(t, d, "count", "plain", &index.LCIF{Params: model})
	dbtest.Builds(t, d, "count", "weighed", &index.LCIF{Params: model, Weight: "tfidf"})
	dbtest.Builds(t, d, "count", "lists", nil)
	tree := index.Trees{Params: budget.Params{BAC: budget.BACParams{Budget: 3, Rounds: 2}, Folds: 3}}
	for _, of := range [][2]string{{"at", "words"}, {"pt", "words"}, {"sbt", "inner"}} {
		tree.Kind = of[0]
		dbtest.Builds(t, d, of[1], of[0], new(tree))
	}
	dbtest.Builds(t, d, "words", "linear", &index.LabelTree{})
	dbtest.Must(t, d.Compact(ctx, nil))
	put("float", 40, 43, 0)
	put("count", 120, 124, 0)
	dbtest.Must(t, dbtest.Delete(d, "count", "key-7"))
	_, err = d.Maintain(ctx, 0, nil)
	dbtest.Must(t, err)
	put("count", 124, 126, 0) // not covered by indexes
	put("inner", 30, 32, 0)
	dbtest.Must(t, dbtest.Closed(d, dbtest.Check(d)))
}

var goldenRows = map[string]int{"bytes": 17, "float": 40, "inner": 30, "large": 2, "count": 120, "words": 80}

// goldenAnswers describes a golden database: its rows, and what its indexes find and predict.
func goldenAnswers(t *testing.T, d *db.DB) string {
	var out strings.Builder
	ctx := t.Context()
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	search := func(c db.Collection, q db.Query, o *db.SearchOptions) {
		res, err := c.Search(ctx, q, o)
		dbtest.Must(t, err)
		line("search %s by %q: %s", c.Name(), res.Index, res.Plan())
		for _, h := range res.Hits {
			line("  %s %.4f %v", h.Key, h.Distance, h.Why)
		}
	}
	s, err := d.Snapshot()
	dbtest.Must(t, err)
	defer s.Release()
	for _, info := range s.Collections() {
		c := s.Collection(info.Name)
		line("collection %s: %d of %d rows, attributes %v", info.Name, info.Live, info.Rows, info.Attributes)
		for r, err := range c.Rows(ctx, nil) {
			dbtest.Must(t, err)
			slices.SortFunc(r.Features, func(a, b vector.Feature) int {
				return strings.Compare(a.Name, b.Name)
			})
			line("  %d %s %08x %v %v %v %s %v", r.Row, r.Key, crc32.ChecksumIEEE(codec.Bytes(r.Vector)), r.Sparse, r.Features, r.Labels, r.Payload, r.Attributes)
		}
		counts, err := c.Labels()
		dbtest.Must(t, err)
		n, err := c.Count(ctx, filter.Or(filter.Range("n", nil, 12), filter.Eq("third", 0.5)))
		dbtest.Must(t, err)
		line("labels %v, %d rows pass a filter", counts, n)
		row := goldenRow(info.Name, 2, 0)
		q := db.Query{Vector: row.Vector, Sparse: row.Sparse, Features: row.Features}
		for _, where := range []*filter.Filter{nil, filter.HasLabel("l9", "changed"), filter.KeyPrefix([]byte("key-1"))} {
			search(c, q, &db.SearchOptions{K: 3, Index: db.Flat, Where: where})
		}
		infos, err := c.Indexes()
		dbtest.Must(t, err)
		for _, x := range infos {
			line("index %s of kind %s covers %d rows, %d fresh", x.Name, x.Kind, x.Rows, x.Fresh)
			switch x.Kind {
			case "kd", "rp":
				p := query.Params{Method: query.Lookup, Extra: 28, NoWiden: true}
				search(c, q, &db.SearchOptions{K: 3, Index: x.Name, Params: &p, Explain: true})
			case "postings":
				search(c, q, &db.SearchOptions{K: 3, Index: x.Name})
			default:
				p, err := c.Predict(ctx, q, &db.PredictOptions{Index: x.Name, Top: 2, Explain: true})
				dbtest.Must(t, err)
				line("%v", p.Why)
				for _, l := range p.Labels {
					line("  %s %.3f %v", l.Label, l.Score, l.Why)
				}
			}
		}
	}
	return out.String()
}

// TestGolden opens the golden database, first for reading, and asks it everything; then it continues as a
// database.
func TestGolden(t *testing.T) {
	dbtest.Whole(t)
	path, zipped := filepath.Join(t.TempDir(), "golden.anndb"), filepath.Join("testdata", "golden.anndb.gz")
	if *golden.Write {
		goldenFile(t, path)
		data, err := os.ReadFile(path)
		dbtest.Must(t, err)
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err = z.Write(data)
		dbtest.Must(t, errors.Join(err, z.Close(), os.MkdirAll("testdata", 0o755), os.WriteFile(zipped, b.Bytes(), 0o644)))
	}
	f, err := os.Open(zipped)
	dbtest.Must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	dbtest.Must(t, err)
	data, err := io.ReadAll(z)
	dbtest.Must(t, errors.Join(err, os.WriteFile(path, data, 0o600)))
	for _, readOnly := range []bool{true, false} {
		d, err := dbtest.Open(t.Context(), path, &db.Options{ReadOnly: readOnly})
		dbtest.Must(t, errors.Join(err, dbtest.Check(d)))
		golden.Compare(t, "golden.txt", goldenAnswers(t, d))
		if !readOnly {
			for coll := range goldenRows {
				for i := range 30 { // seals the chunk that the tail began
					dbtest.Must(t, dbtest.Put(d, coll, goldenRow(coll, 1000+i, 0)))
				}
			}
			_, err := d.Maintain(context.Background(), 0, nil)
			dbtest.Must(t, errors.Join(err, dbtest.Check(d)))
			q := goldenRow("bytes", 1003, 0)
			if hits, _, err := dbtest.Nearest(t.Context(), d.Collection("bytes"), db.Query{Vector: q.Vector}, 1, nil); err != nil || string(hits[0].Key) != "key-1003" || math.Abs(float64(hits[0].Distance)) > 0 {
				t.Errorf("a row that was added: %v, %v", hits, err)
			}
		}
		dbtest.Must(t, d.Close())
	}
}
