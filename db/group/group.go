// Package group searches several collections, of one file or of several, as one: the answers are those
// of one collection that has the rows of all, in the order of the parts. The guide lists what is exact.
package group

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/where"
	"github.com/anndb/anndb/internal/par"
)

// Group is several collections with the same schema, safe for concurrent use. Keys should be unique in
// all of them: of several rows with one key Get finds that of the first part.
type Group struct {
	parts []Part
	infos []db.CollectionInfo
	only  *db.Collection // the only part, if it is one of this process
	held  []*db.Snapshot

	models *Models
	mu     sync.Mutex
	opened map[string]*models // by the name of their index
}

// Source is a collection of an open file.
type Source struct {
	DB         *db.DB
	Collection string
}

// Open returns a group of collections in their latest state: it holds one snapshot of each file until
// Release.
func Open(ctx context.Context, sources ...Source) (g *Group, err error) {
	snapshots := map[*db.DB]*db.Snapshot{}
	var held []*db.Snapshot
	defer func() {
		if err != nil {
			release(held)
		}
	}()
	parts := make([]Part, len(sources))
	for i, s := range sources {
		at := snapshots[s.DB]
		if at == nil {
			if at, err = s.DB.Snapshot(); err != nil {
				return nil, err
			}
			snapshots[s.DB] = at
			held = append(held, at)
		}
		parts[i] = Of(at.Collection(s.Collection))
	}
	if g, err = New(ctx, parts...); err == nil {
		g.held = held
	}
	return g, err
}

// New returns a group of parts. The schemas of all must be equal, but for their Weight, Float32,
// Numbering and Meta, which are those of the first one.
func New(ctx context.Context, parts ...Part) (*Group, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w: a group without collections", fail.Option)
	}
	g := &Group{parts: parts}
	var err error
	g.infos, err = all(ctx, g, func(i int) (db.CollectionInfo, error) { return parts[i].Info(ctx) })
	if err != nil {
		return nil, err
	}
	form := func(s db.Schema) db.Schema {
		s.Weight, s.Float32, s.Numbering, s.Meta = 0, false, "", nil
		return s
	}
	first := &g.infos[0]
	for i := range g.infos[1:] {
		if x := &g.infos[1+i]; !reflect.DeepEqual(form(x.Schema), form(first.Schema)) {
			return nil, fmt.Errorf("%w: the rows of %q, part %d of a group, have another form than those of %q: "+
				"the schemas must be equal", fail.Option, x.Name, 1+i, first.Name)
		}
	}
	if l, ok := parts[0].(local); ok && len(parts) == 1 {
		g.only = &l.Collection
	}
	return g, nil
}

// Release releases the snapshots of Open. The group must not be used afterwards.
func (g *Group) Release() { release(g.held) }

func release(held []*db.Snapshot) {
	for _, s := range held {
		s.Release()
	}
}

// each calls f for all parts at once. Errors have the name of the part if it has a method String, otherwise
// its number.
func (g *Group) each(ctx context.Context, f func(i int) error) error {
	if err := fail.Context(ctx); err != nil {
		return err
	}
	n := len(g.parts)
	return par.Each(ctx, par.Work{N: n, Workers: n}, func(i int) error {
		err := f(i)
		if err != nil && n > 1 {
			what := fmt.Sprintf("part %d of %d", i, n)
			if named, ok := g.parts[i].(fmt.Stringer); ok {
				what = named.String()
			}
			err = fail.Wrapf(err, "%s", what)
		}
		return err
	})
}

// all returns what f returns for each part.
func all[T any](ctx context.Context, g *Group, f func(i int) (T, error)) ([]T, error) {
	out := make([]T, len(g.parts))
	return out, g.each(ctx, func(i int) (err error) {
		out[i], err = f(i)
		return err
	})
}

// Info describes the rows of all parts as those of one collection, with the name of the first one.
func (g *Group) Info() db.CollectionInfo {
	if len(g.infos) == 0 {
		return db.CollectionInfo{}
	}
	out := g.infos[0]
	for _, x := range g.infos[1:] {
		out.Live, out.Rows, out.Sealed = out.Live+x.Live, out.Rows+x.Rows, out.Sealed+x.Sealed
		out.Features, out.Expires = max(out.Features, x.Features), out.Expires || x.Expires
		out.Indexes = slices.Concat(out.Indexes, x.Indexes)
		out.Attributes = slices.Concat(out.Attributes, x.Attributes)
	}
	for _, names := range []*[]string{&out.Indexes, &out.Attributes} {
		*names = slices.Compact(slices.Sorted(slices.Values(*names)))
	}
	return out
}

// Get returns the row with the key, and the number of its part.
func (g *Group) Get(ctx context.Context, key []byte) (row db.Row, part int, err error) {
	found, err := all(ctx, g, func(i int) ([]db.Row, error) { return g.parts[i].Rows(ctx, [][]byte{key}) })
	if err != nil {
		return row, 0, err
	}
	for i, rows := range found {
		if len(rows) > 0 {
			return rows[0], i, nil
		}
	}
	return row, 0, fmt.Errorf("%w: key %q in %d collections", db.ErrNotFound, key, len(g.parts))
}

// Count returns the number of rows that a filter selects; nil selects all.
func (g *Group) Count(ctx context.Context, f *filter.Filter) (n int, err error) {
	filters := g.filters(f)
	counts, err := all(ctx, g, func(i int) (int, error) { return g.parts[i].Count(ctx, filters[i]) })
	for _, c := range counts {
		n += c
	}
	return n, err
}

// Labels returns the number of rows of each label, as db.Collection.Labels.
func (g *Group) Labels(ctx context.Context) (map[string]int, error) {
	found, err := all(ctx, g, func(i int) (map[string]int, error) { return g.parts[i].Labels(ctx) })
	out := map[string]int{}
	for _, labels := range found {
		for label, n := range labels {
			out[label] += n
		}
	}
	return out, err
}

// filters returns a filter for each part, which would refuse attributes that only rows of others have.
// What no part knows is left for the first one to refuse.
func (g *Group) filters(f *filter.Filter) []*filter.Filter {
	out := make([]*filter.Filter, len(g.parts))
	if f == nil {
		return out
	}
	for i := range out {
		out[i] = filter.Of(where.Without(f.Expr(), func(name string) bool {
			return g.knows(i, name) || !g.known(name)
		}))
	}
	return out
}

// knows reports whether rows of a part have had an attribute, known whether rows of any part have.
func (g *Group) knows(part int, attribute string) bool {
	return slices.Contains(g.infos[part].Attributes, attribute)
}

func (g *Group) known(attribute string) bool {
	return slices.ContainsFunc(g.infos, func(x db.CollectionInfo) bool {
		return slices.Contains(x.Attributes, attribute)
	})
}

// query is a query to all parts.
type query struct {
	db.Query
	asked  db.Query // as it was, perhaps with the key of a row that has been read
	ask    Ask
	self   *self     // that row
	beside []float32 // the vector next to features
}

// self is a row by its part and key: two answers of a part may be those of replicas, with other
// numbers.
type self struct {
	part int
	key  []byte
}

// resolve reads the row of a query by key, and counts the terms of a text.
func (g *Group) resolve(ctx context.Context, asked db.Query) (q query, err error) {
	q.Query, q.asked = asked, asked
	if len(g.parts) == 0 {
		return q, fmt.Errorf("%w: a group without collections", db.ErrClosed)
	}
	if q.Key != nil {
		if q.Vector != nil || q.features() {
			return q, fmt.Errorf("%w: a query with a key and a vector or features", fail.Option)
		}
		key := q.Key
		r, part, err := g.Get(ctx, key)
		if err != nil {
			return q, fail.Wrapf(err, "query like a stored row")
		}
		q.Query = db.Query{Vector: r.Vector, Sparse: r.Sparse, Features: r.Features, Text: r.Text}
		q.self, q.ask.Stored = &self{part, key}, true
	}
	info := &g.infos[0]
	if info.Sparse {
		q.beside = q.Vector
	}
	if info.Text == nil || q.Text == "" && info.Dim > 0 {
		return q, nil
	}
	terms, err := all(ctx, g, func(i int) (Terms, error) { return g.parts[i].Terms(ctx, q.Query, &q.ask) })
	q.ask.Terms = &Terms{}
	for i := range terms {
		q.ask.Terms.Add(&terms[i])
	}
	return q, err
}

// features reports whether the query has features.
func (q *query) features() bool { return q.Sparse.Len() > 0 || len(q.Features) > 0 || q.Text != "" }

// unknown returns the features that no row of any of n parts has ever had; of returns those of a part,
// false if it was not asked.
func unknown(n int, of func(i int) ([]string, bool)) (out []string) {
	asked := false
	for i := range n {
		switch names, ok := of(i); {
		case !ok:
		case !asked:
			out, asked = slices.Clone(names), true
		default:
			out = slices.DeleteFunc(out, func(s string) bool { return !slices.Contains(names, s) })
		}
	}
	return out
}

// place is a row in the order of all: by what the search says, then by part and number.
type place struct {
	part, at int // the hit of an answer
	row      uint32
	order    float64 // the smallest first
}

func (x place) compare(y place) int {
	return cmp.Or(cmp.Compare(x.order, y.order), cmp.Compare(x.part, y.part), cmp.Compare(x.row, y.row))
}
