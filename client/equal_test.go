package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

var schemas = map[string]db.Schema{
	"dense": {Dim: 2}, "cosine": {Dim: 3, Metric: vector.Cosine, Float32: true, Meta: map[string]string{"a": ""}},
	"sparse": {Sparse: true}, "named": {Named: true}, "texts": {Text: &text.Schema{K1: 1.5}},
	"both": {Text: &text.Schema{}, Dim: 2}, "features": {Named: true, Dim: 2}, "ü/.. %\"": {Dim: 1},
}

var words = []string{"boot", "sea", "cold", "water", "ship"}

// keys draws mostly few keys, so that operations meet.
var keys = rapid.OneOf(
	rapid.Map(rapid.IntRange(0, 9), func(i int) []byte { return fmt.Append(nil, "k", i) }),
	rapid.SampledFrom([][]byte{
		[]byte("."), []byte(".."), []byte("a/b?c#%2f"), {0, 0xff}, []byte("ü"), []byte(`"x" or`),
	}),
)

var badKeys = rapid.SampledFrom([][]byte{nil, make([]byte, 513)})

var values = rapid.SampledFrom([]float32{
	0, 1, 0.1, -2.5, 1e-7, 3.4e38, 1.1754944e-38, 1e-45, float32(math.Copysign(0, -1)), 7, 8, 9,
})

func drawVector(t *rapid.T, dim int) []float32 {
	return rapid.SliceOfN(values, dim, dim).Draw(t, "vector")
}

func drawText(t *rapid.T) string {
	out := ""
	for _, w := range rapid.SliceOfN(rapid.SampledFrom(words), 0, 4).Draw(t, "text") {
		out += w + " "
	}
	return out
}

// drawQuery draws the parts of a row or query of a collection; sometimes a part is missing.
func drawQuery(t *rapid.T, s db.Schema) (q db.Query) {
	none := rapid.IntRange(0, 9)
	if s.Dim > 0 && none.Draw(t, "no vector") > 1 {
		q.Vector = drawVector(t, s.Dim)
	}
	switch {
	case none.Draw(t, "no part") == 0:
	case s.Text != nil:
		q.Text = drawText(t)
	case s.Named:
		for _, w := range rapid.SliceOfNDistinct(rapid.SampledFrom(words), 0, 4, rapid.ID).Draw(t, "features") {
			v := rapid.SampledFrom([]float32{1, 0.3, 2, 1e-3}).Draw(t, "value")
			q.Features = append(q.Features, vector.Feature{Name: w, Value: v})
		}
	case s.Sparse:
		for i := range uint32(5) {
			if rapid.Bool().Draw(t, "feature") {
				q.Sparse.Index = append(q.Sparse.Index, i*i)
				q.Sparse.Value = append(q.Sparse.Value, float32(i)+0.3)
			}
		}
	}
	return q
}

func drawAttributes(t *rapid.T) map[string]any {
	return rapid.SampledFrom([]map[string]any{
		nil, {"n": 3}, {"n": int64(-1 << 62), "s": "ü\"", "b": true}, {"f": 3.0, "b": false}, {"f": float32(0.1)},
		{"t": time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}, {"f": math.Inf(1)}, {"n": "no number"}, {"f": math.NaN()},
		{"u": uint8(7)}, {"s": ""}, {"n": uint64(1 << 63)}, {"l": []int{1}},
	}).Draw(t, "attributes")
}

func drawRow(t *rapid.T, s db.Schema) db.Row {
	q := drawQuery(t, s)
	r := db.Row{Key: keys.Draw(t, "key"), Vector: q.Vector, Sparse: q.Sparse, Features: q.Features, Text: q.Text}
	r.Labels = rapid.SampledFrom([][]string{nil, {"x"}, {"y", "x"}, {"ü", "\"", ""}, {"y", "y"}}).Draw(t, "labels")
	r.Payload = rapid.SampledFrom([][]byte{nil, {}, []byte("p"), {0xff, 0}, []byte(`{"a": 1}`)}).Draw(t, "payload")
	r.Attributes = drawAttributes(t)
	r.ExpiresAt = rapid.SampledFrom([]time.Time{{}, {}, {}, time.Date(2099, 1, 1, 0, 0, 0, 1, time.UTC), time.Unix(1, 0)}).Draw(t, "expires")
	switch rapid.IntRange(0, 30).Draw(t, "bad") {
	case 0:
		r.Vector = append(r.Vector, 1)
	case 1:
		r.Vector = []float32{float32(math.NaN()), 1}
	case 2:
		r.Text, r.Features = "a", []vector.Feature{{Name: "a", Value: 1}}
	case 3:
		r.Text = "a"
	case 4:
		r.Features = []vector.Feature{{Name: "a", Value: -1}}
	case 5:
		r.Key = badKeys.Draw(t, "bad key")
	}
	return r
}

var filters = rapid.SampledFrom([]*filter.Filter{
	nil, filter.HasLabel("x"), filter.Range("n", 0, 10), filter.Not(filter.Exists("f")), filter.KeyPrefix([]byte("k")),
	filter.And(filter.HasLabel("ü", `"`), filter.Eq("s", "ü\"")), filter.HasKey([]byte{0, 0xff}, []byte("k1")),
	filter.Eq("none", 1), filter.Eq("t", time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)), filter.Eq("f", float32(0.1)),
})

func drawSearch(t *rapid.T) *db.SearchOptions {
	o := &db.SearchOptions{
		K: rapid.IntRange(0, 5).Draw(t, "k"), Where: filters.Draw(t, "where"),
		Index:   rapid.SampledFrom([]string{"", "", db.Flat, "main", "none"}).Draw(t, "index"),
		Include: db.Content(rapid.IntRange(0, 15).Draw(t, "include")), Explain: rapid.Bool().Draw(t, "explain"),
		Recall: rapid.SampledFrom([]float64{0, 0, 0.9, 1, 2}).Draw(t, "recall"),
	}
	if rapid.IntRange(0, 3).Draw(t, "radius") == 0 {
		o.Radius = new(float64)
		*o.Radius = rapid.SampledFrom([]float64{0, 1, 1e9, -1}).Draw(t, "radius")
	}
	switch rapid.IntRange(0, 5).Draw(t, "rank") {
	case 0:
		o.Rank = rank.Options{Weight: 0.3, Diversity: 0.5}
	case 1:
		o.Rank = rank.Options{Boosts: []rank.Boost{{Where: filter.HasLabel("x"), Factor: 2}}, PerGroup: 1}
	case 2:
		o.After = []db.Hit{{Key: []byte("k1")}, {Key: []byte{0, 0xff}}}
	}
	return o
}

// pair is a database, and an equal one behind a client.
type pair struct {
	*rapid.T

	ctx    context.Context
	direct *db.DB
	file   client.File
	name   string
	schema db.Schema
}

// equal compares what both return.
func (p *pair) equal(what string, want any, wantErr error, got any, gotErr error) {
	p.Helper()
	if !sameError(wantErr, gotErr) {
		p.Fatalf("%s: error %v\nwant %v", what, gotErr, wantErr)
	}
	if wantErr == nil && !alike(reflect.ValueOf(got), reflect.ValueOf(want)) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		p.Fatalf("%s: %#v\nwant %#v\n%s\nwant %s", what, got, want, g, w)
	}
}

// alike is reflect.DeepEqual for public fields, with floats bit for bit, but empty and nil are the same.
func alike(a, b reflect.Value) bool {
	if a.Kind() != b.Kind() || a.Kind() != reflect.Invalid && a.Type() != b.Type() {
		return false
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		return a.IsNil() == b.IsNil() && (a.IsNil() || alike(a.Elem(), b.Elem()))
	case reflect.Float32, reflect.Float64:
		return math.Float64bits(a.Float()) == math.Float64bits(b.Float())
	case reflect.String: // reasons name keys, which need not be UTF-8, for people
		return string([]rune(a.String())) == string([]rune(b.String()))
	case reflect.Slice:
		for i := range min(a.Len(), b.Len()) {
			if !alike(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return a.Len() == b.Len()
	case reflect.Map:
		for _, key := range a.MapKeys() {
			if !alike(a.MapIndex(key), b.MapIndex(key)) {
				return false
			}
		}
		return a.Len() == b.Len()
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); (f.IsExported() || a.Type() == reflect.TypeFor[time.Time]()) && !alike(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Kind() == reflect.Invalid || a.Equal(b)
}

// unnumbered is a row without what the client leaves out, its number, with sorted parts.
func unnumbered(r db.Row, err error) (db.Row, error) {
	r.Row = 0
	slices.Sort(r.Labels) // which a transaction orders in its own rows
	r.Labels = slices.Compact(r.Labels)
	slices.SortFunc(r.Features, func(a, b vector.Feature) int { return strings.Compare(a.Name, b.Name) })
	return r, err
}

// TestEqual does the same in a database and through a client.
func TestEqual(t *testing.T) {
	direct := open(t)
	served := serve(t, open(t), &client.Options{Retries: -1}, nil)
	rapid.Check(t, func(rt *rapid.T) {
		p := &pair{T: rt, ctx: t.Context(), direct: direct, file: served.file}
		p.name = rapid.SampledFrom(sortedNames()).Draw(rt, "collection")
		p.schema = schemas[p.name]
		p.restart()
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) { p.T = t; p.put() }, "edit": func(t *rapid.T) { p.T = t; p.edit() },
			"transact": func(t *rapid.T) { p.T = t; p.transact() }, "get": func(t *rapid.T) { p.T = t; p.get() },
			"load": func(t *rapid.T) { p.T = t; p.load() }, "search": func(t *rapid.T) { p.T = t; p.search() },
			"build": func(t *rapid.T) { p.T = t; p.build() }, "predict": func(t *rapid.T) { p.T = t; p.predict() },
			"": func(t *rapid.T) { p.T = t; p.rows(nil) }, "filter": func(t *rapid.T) { p.T = t; p.rows(filters.Draw(t, "f")) },
		})
	})
}

func sortedNames() (names []string) {
	for name := range schemas {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (p *pair) coll() (db.Collection, client.Collection) {
	return p.direct.Collection(p.name), p.file.Collection(p.name)
}

func (p *pair) put() {
	r := drawRow(p.T, p.schema)
	_, c := p.coll()
	op := rapid.SampledFrom([]string{"put", "insert", "delete"}).Draw(p.T, "op")
	err1 := p.direct.Update(p.ctx, func(tx *db.Tx) error {
		d := tx.Collection(p.name)
		switch op {
		case "put":
			return d.Put(r)
		case "insert":
			return d.Insert(r)
		}
		return d.Delete(r.Key)
	})
	var err2 error
	switch op {
	case "put":
		err2 = c.Put(p.ctx, r)
	case "insert":
		err2 = c.Insert(p.ctx, r)
	default:
		err2 = c.Delete(p.ctx, r.Key)
	}
	p.equal(op, nil, err1, nil, err2)
}

// edit changes a part of a row.
func (p *pair) edit() {
	r := drawRow(p.T, p.schema)
	part := rapid.SampledFrom([]string{"labels", "payload", "attributes", "expiry", "text", "vector"}).Draw(p.T, "part")
	if part == "text" && p.schema.Text == nil || part == "vector" && p.schema.Dim == 0 {
		return
	}
	_, c := p.coll()
	err1 := p.direct.Update(p.ctx, func(tx *db.Tx) error {
		d := tx.Collection(p.name)
		has, err := d.Get(r.Key)
		if err == nil && (part == "text" && has.Text == r.Text || part == "vector" && slices.Equal(has.Vector, r.Vector)) {
			return nil // the library writes an equal row again
		}
		switch part {
		case "labels":
			return d.SetLabels(r.Key, r.Labels...)
		case "payload":
			return d.SetPayload(r.Key, r.Payload)
		case "attributes":
			return d.SetAttributes(r.Key, r.Attributes)
		case "expiry":
			return d.SetExpiry(r.Key, r.ExpiresAt)
		case "text":
			return d.SetText(r.Key, r.Text)
		}
		return d.SetVector(r.Key, r.Vector)
	})
	err2 := c.Update(p.ctx, r.Key, func(row *db.Row) {
		switch part {
		case "labels":
			row.Labels = r.Labels
		case "payload":
			row.Payload = r.Payload
		case "attributes":
			row.Attributes = r.Attributes
		case "expiry":
			row.ExpiresAt = r.ExpiresAt
		case "text":
			row.Text = r.Text
		default:
			row.Vector = r.Vector
		}
	})
	p.equal("edit of "+part, nil, err1, nil, err2)
}

// transact reads, and writes several rows.
func (p *pair) transact() {
	list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) db.Row { return drawRow(t, p.schema) }), 1, 4).Draw(p.T, "rows")
	read := keys.Draw(p.T, "read")
	ops := rapid.SliceOfN(rapid.IntRange(0, 2), len(list), len(list)).Draw(p.T, "ops")
	var rows1, rows2 []db.Row
	collect := func(rows *[]db.Row, get func([]byte) (db.Row, error), key []byte) error {
		r, err := unnumbered(get(key))
		if errors.Is(err, db.ErrNotFound) {
			err = nil
		}
		*rows = append(*rows, r)
		return err
	}
	type coll interface {
		Get(key []byte) (db.Row, error)
		Put(r db.Row) error
		Insert(r db.Row) error
		Delete(key []byte) error
	}
	run := func(c coll, rows *[]db.Row) error {
		*rows = nil
		if err := collect(rows, c.Get, read); err != nil {
			return err
		}
		for i, r := range list {
			switch ops[i] {
			case 0:
				if err := c.Put(r); err != nil {
					return err
				}
			case 1:
				if err := c.Insert(r); err != nil {
					return err
				}
			default:
				if err := c.Delete(r.Key); err != nil {
					return err
				}
			}
			if err := collect(rows, c.Get, r.Key); err != nil {
				return err
			}
		}
		return nil
	}
	err1 := p.direct.Update(p.ctx, func(tx *db.Tx) error { return run(tx.Collection(p.name), &rows1) })
	err2 := p.file.Update(p.ctx, func(tx *client.Tx) error { return run(tx.Collection(p.name), &rows2) })
	if err1 == nil || err2 == nil { // of several errors either is right
		p.equal("transaction", rows1, err1, rows2, err2)
	}
}

func (p *pair) get() {
	d, c := p.coll()
	key := rapid.OneOf(keys, badKeys).Draw(p.T, "key")
	row1, err1 := unnumbered(d.Get(key))
	row2, err2 := unnumbered(c.Get(p.ctx, key))
	p.equal("get", row1, err1, row2, err2)
	has1, err1 := d.Has(key)
	has2, err2 := c.Has(p.ctx, key)
	p.equal("has", has1, err1, has2, err2)
	info1, err1 := d.Info()
	info2, err2 := c.Info(p.ctx)
	p.equal("info", info1, err1, info2, err2)
	labels1, err1 := d.Labels()
	labels2, err2 := c.Labels(p.ctx)
	p.equal("labels", labels1, err1, labels2, err2)
}

func (p *pair) load() {
	list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) db.Row { return drawRow(t, p.schema) }), 0, 20).Draw(p.T, "rows")
	insert := rapid.Bool().Draw(p.T, "insert")
	bad := rapid.IntRange(0, 30).Draw(p.T, "bad")
	seq := func(yield func(db.Row, error) bool) {
		for i, r := range list {
			if i == bad {
				yield(db.Row{}, db.ErrLocked)
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
	d, c := p.coll()
	n1, err1 := d.Load(p.ctx, seq, &db.LoadOptions{Insert: insert})
	n2, err2 := c.Load(p.ctx, seq, &db.LoadOptions{Insert: insert})
	if err1 != nil && err2 != nil { // of several errors, and of what is stored before one, either is right
		p.restart()
		return
	}
	p.equal("load", n1, err1, n2, err2)
}

// restart makes both collections equal and empty.
func (p *pair) restart() {
	err1, err2 := p.direct.Drop(p.ctx, p.name), p.file.Drop(p.ctx, p.name)
	p.equal("drop", nil, err1, nil, err2)
	_, err1 = p.direct.Create(p.ctx, p.name, p.schema)
	_, err2 = p.file.Create(p.ctx, p.name, p.schema)
	p.equal("create", nil, err1, nil, err2)
}

func (p *pair) rows(f *filter.Filter) {
	d, c := p.coll()
	var rows1, rows2 []db.Row
	var err1, err2 error
	for r, err := range d.Rows(p.ctx, f) {
		if r, err1 = unnumbered(r, err); err == nil {
			rows1 = append(rows1, r)
		}
	}
	for r, err := range c.Rows(p.ctx, f) {
		if r, err2 = unnumbered(r, err); err == nil {
			rows2 = append(rows2, r)
		}
	}
	p.equal("rows", rows1, err1, rows2, err2)
	n1, err1 := d.Count(p.ctx, f)
	n2, err2 := c.Count(p.ctx, f)
	p.equal("count", n1, err1, n2, err2)
}

func (p *pair) search() {
	d, c := p.coll()
	q, o := drawQuery(p.T, p.schema), drawSearch(p.T)
	if rapid.IntRange(0, 5).Draw(p.T, "like") == 0 {
		q = db.Query{Key: keys.Draw(p.T, "key")}
	}
	r1, err1 := d.Search(p.ctx, q, o)
	r2, err2 := c.Search(p.ctx, q, o)
	p.equal("search", r1, err1, r2, err2)
	if err1 == nil && r1.Plan() != r2.Plan() {
		p.Fatalf("plan %q, want %q", r2.Plan(), r1.Plan())
	}
	list := []db.Query{q, drawQuery(p.T, p.schema)}[:rapid.IntRange(0, 2).Draw(p.T, "batch")]
	b1, err1 := d.SearchBatch(p.ctx, list, o)
	b2, err2 := c.SearchBatch(p.ctx, list, o)
	p.equal("batch", b1, err1, b2, err2)
}

func (p *pair) build() {
	d, c := p.coll()
	name := rapid.SampledFrom([]string{"main", "model"}).Draw(p.T, "name")
	switch rapid.IntRange(0, 7).Draw(p.T, "what") {
	case 2:
		p.equal("set default", nil, d.SetDefault(p.ctx, name), nil, c.SetDefault(p.ctx, name))
	case 3:
		p.equal("compact", nil, p.direct.Compact(p.ctx, nil), nil, p.file.Compact(p.ctx, nil))
	case 4:
		s := p.schema
		s.Weight, s.Meta = rapid.SampledFrom([]float64{0, 0.5, 2}).Draw(p.T, "weight"), map[string]string{"a": name}
		p.equal("set schema", nil, d.SetSchema(p.ctx, s, nil), nil, c.SetSchema(p.ctx, s))
		i1, err1 := d.Info()
		i2, err2 := c.Info(p.ctx)
		p.equal("info", i1.Schema, err1, i2.Schema, err2)
	case 5:
		other := rapid.SampledFrom([]string{"other", "sparse", "a/b", d.Name()}).Draw(p.T, "other")
		err1, err2 := p.direct.Rename(p.ctx, d.Name(), other), p.file.Rename(p.ctx, d.Name(), other)
		p.equal("rename", nil, err1, nil, err2)
		if err1 == nil {
			p.equal("rename back", nil, p.direct.Rename(p.ctx, other, d.Name()), nil, p.file.Rename(p.ctx, other, d.Name()))
		}
	case 0:
		p.equal("drop index", nil, d.DropIndex(p.ctx, name), nil, c.DropIndex(p.ctx, name))
		return
	case 1:
		s1, err1 := p.direct.Maintain(p.ctx, 0, nil)
		s2, err2 := p.file.Maintain(p.ctx, 0)
		p.equal("maintain", len(s1), err1, len(s2), err2)
		return
	}
	var o index.Options
	switch {
	case name == "model":
		o = &index.LCIF{Seed: 3}
	case p.schema.Dim > 0:
		o = &index.Forest{Seed: 1, NoTune: true, Members: true, Trees: 2}
	case rapid.Bool().Draw(p.T, "nil"):
		o = &index.Postings{}
	}
	i1, err1 := d.Build(p.ctx, name, o, nil)
	i2, err2 := c.Build(p.ctx, name, o)
	p.equal("build", info(i1), err1, info(i2), err2)
	l1, err1 := d.Indexes()
	l2, err2 := c.Indexes(p.ctx)
	p.equal("indexes", len(l1), err1, len(l2), err2)
	if err1 != nil {
		p.Fatalf("indexes: %v", err1)
	}
	for i := range l1 {
		p.equal("index", info(l1[i]), nil, info(l2[i]), nil)
	}
}

// info is what two builds have in common.
func info(i index.Info) any {
	return []any{i.Name, i.Kind, i.Collection, i.Default, i.Options, i.Rows, i.Fresh, i.Segments, i.TrainingPoints, i.Error}
}

func (p *pair) predict() {
	d, c := p.coll()
	q := drawQuery(p.T, p.schema)
	o := &db.PredictOptions{
		Top: rapid.IntRange(0, 3).Draw(p.T, "top"), Explain: rapid.Bool().Draw(p.T, "explain"),
		Frequent: rapid.Bool().Draw(p.T, "frequent"), Where: filters.Draw(p.T, "where"),
	}
	p1, err1 := d.Predict(p.ctx, q, o)
	p2, err2 := c.Predict(p.ctx, q, o)
	p.equal("predict", p1, err1, p2, err2)
	b1, err1 := d.PredictBatch(p.ctx, []db.Query{q, q}, o)
	b2, err2 := c.PredictBatch(p.ctx, []db.Query{q, q}, o)
	p.equal("batch", b1, err1, b2, err2)
}
