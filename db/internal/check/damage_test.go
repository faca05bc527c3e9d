package check_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// These tests flip bits of a small database, cut it short, and ask it everything: the answers are right, or
// there is a named error. The torture bench does the same to every page of a larger one, and in a process of
// its own for each case.

// damaged writes a database of dense, sparse and named rows, sealed ones and others, with keys and labels so
// long that their buckets have branch pages, deleted and changed rows, every kind of index, and free pages.
func damaged(t testing.TB) (path string) {
	path = filepath.Join(t.TempDir(), "damaged.anndb")
	d, err := dbtest.Open(t.Context(), path, &db.Options{NoSync: true})
	dbtest.Must(t, err)
	names := slices.Sorted(maps.Keys(damagedRows)) // an order of its own would number objects differently
	put := func(from, to int) {
		for _, name := range names {
			var rows []db.Row
			for i := from; i < to; i++ {
				r := damagedRows[name](i)
				r.Key, r.Payload = damagedKey(i), bytes.Repeat([]byte{byte(i)}, i)
				r.Labels = []string{fmt.Sprintf("%s-%02d", strings.Repeat("l", 300), i%20), fmt.Sprint("topic-", i%3)}
				rows = append(rows, r)
			}
			dbtest.Must(t, dbtest.Put(d, name, rows...))
		}
	}
	schemas := map[string]db.Schema{
		"bytes": {Dim: 4096}, "small": {Dim: 8, Metric: vector.Cosine}, "words": {Named: true},
		"texts": {Dim: 8, Metric: vector.Cosine, Text: &text.Schema{}},
	}
	for _, name := range names {
		dbtest.Must(t, dbtest.Create(t.Context(), d, name, schemas[name]))
	}
	put(0, 60)
	model := &index.LCIF{Params: &lcif.Params{K: 4, Lambda: 0.5, Beta: 2}}
	dbtest.Builds(t, d, "small", "kd", &index.Forest{Trees: 3, Members: true, NoTune: true})
	dbtest.Builds(t, d, "small", "labels", model)
	dbtest.Builds(t, d, "texts", "terms", &index.Postings{})
	dbtest.Builds(t, d, "words", "rows", nil)
	dbtest.Builds(t, d, "words", "labels", model)
	dbtest.Builds(t, d, "words", "pt", &index.Trees{Kind: "pt", Budget: 4})
	dbtest.Builds(t, d, "words", "linear", &index.LabelTree{})
	for _, name := range names {
		dbtest.Must(t, dbtest.Delete(d, name, string(damagedKey(3)), string(damagedKey(39))))
	}
	put(20, 22)
	_, err = d.Maintain(t.Context(), 0, nil) // small segments
	dbtest.Must(t, err)
	put(60, 64) // rows that indexes do not cover
	dbtest.Must(t, dbtest.Closed(d, dbtest.Check(d)))
	return path
}

func damagedKey(i int) []byte { return fmt.Appendf(nil, "%s-%02d", strings.Repeat("k", 300), i) }

var damagedRows = map[string]func(i int) db.Row{
	"bytes": func(i int) db.Row { return db.Row{Vector: dbtest.Vector(uint64(4*i+1), 4096)} },
	"small": func(i int) db.Row { return db.Row{Vector: dbtest.Vector(uint64(4*i+1), 8)} },
	"texts": func(i int) db.Row {
		r := db.Row{Text: fmt.Sprintf("word %d of %d, and %d", i%7, i%5, i)}
		if i%3 > 0 {
			r.Vector = dbtest.Vector(uint64(4*i+1), 8)
		}
		return r
	},
	"words": func(i int) db.Row { return db.Row{Features: dbtest.Named(dbtest.Sparse(uint64(i)))} },
}

// ask asks a snapshot everything, and calls answer with each answer.
func ask(t *testing.T, s *db.Snapshot, answer func(what, text string, err error)) {
	ctx := t.Context()
	infos := s.Collections()
	for i := range infos { // pointers are printed as addresses
		if x := infos[i].Text; x != nil {
			answer("texts", fmt.Sprintf("%+v", *x), nil)
			infos[i].Text = nil
		}
	}
	answer("collections", fmt.Sprintf("%+v", infos), nil)
	for name, row := range damagedRows {
		c := s.Collection(name)
		rows, err := dbtest.RowTexts(s, name)
		answer("rows of "+name, strings.Join(rows, "\n"), err)
		for i := range 65 {
			r, err := c.Get(damagedKey(i))
			if errors.Is(err, db.ErrNotFound) {
				err = nil
			}
			answer(fmt.Sprint("row ", i, " of ", name), fmt.Sprint(r), err)
		}
		labels, err := c.Labels()
		answer("labels of "+name, fmt.Sprint(labels), err)
		q := row(7)
		ask := db.Query{Vector: q.Vector, Features: q.Features, Text: q.Text}
		search := func(o db.SearchOptions) {
			hits, _, err := dbtest.Nearest(ctx, c, ask, 5, &o)
			var places []rank.Places
			for i := range hits {
				if x := hits[i].Places; x != nil {
					places = append(places, *x)
					hits[i].Places = nil
				}
			}
			answer(fmt.Sprintf("search %s by %q %v %v %q", name, o.Index, o.Where, o.Params, ask.Text),
				fmt.Sprint(hits, places), err)
		}
		search(db.SearchOptions{Index: db.Flat})
		search(db.SearchOptions{Index: db.Flat, Where: filter.HasLabel("topic-1")})
		switch name {
		case "texts":
			search(db.SearchOptions{Index: "terms"})
			ask.Vector, ask.Text = nil, "word 3"
			search(db.SearchOptions{Index: "terms"})
		case "words":
			search(db.SearchOptions{Index: "rows"})
		case "small":
			search(db.SearchOptions{Index: "kd", Params: &query.Params{Tau: 0.1, Sketch: true, NoWiden: true}})
			search(db.SearchOptions{Index: "kd", Params: &query.Params{Method: query.Voting, Votes: 1, NoWiden: true}})
		}
		for _, index := range map[string][]string{"small": {"labels"}, "words": {"labels", "pt", "linear"}}[name] {
			p, _, err := dbtest.Predict(ctx, c, ask, &db.PredictOptions{Index: index, Top: 2})
			answer("predict "+name+" by "+index, fmt.Sprint(p), err)
		}
	}
}

// typed reports whether an error names damage.
func typed(err error) bool {
	return errors.Is(err, db.ErrCorrupt) || errors.Is(err, db.ErrNotDatabase)
}

// verify opens a damaged file, asks it everything and writes to it. cut is done after opening. It reports
// whether an error has named the damage.
func verify(t *testing.T, what, path string, want map[string]string, cut func()) (found bool) {
	t.Helper()
	note := func(call string, err error) bool {
		if err != nil && !typed(err) {
			t.Errorf("%s: %s: %v", what, call, err)
		}
		found = found || err != nil
		return err == nil
	}
	o := &db.Options{NoSync: true, ReadOnly: cut != nil, MapReserve: 1 << 30, CloseTimeout: time.Second}
	d, err := dbtest.Open(t.Context(), path, o)
	if !note("open", err) {
		return true
	}
	if cut != nil {
		cut()
	}
	note("view", d.View(func(s *db.Snapshot) error {
		ask(t, s, func(call, text string, err error) {
			if note(call, err) && text != want[call] {
				t.Errorf("%s: %s: %.200s, want %.200s", what, call, text, want[call])
			}
		})
		return nil
	}))
	note("check", d.Check(t.Context(), nil, nil))
	if cut == nil && note("write", errors.Join(dbtest.Delete(d, "small", string(damagedKey(21))),
		dbtest.Put(d, "small", db.Row{Key: damagedKey(20), Vector: make([]float32, 8)}))) {
		r, err := d.Collection("small").Get(damagedKey(20))
		if note("read", err) && !slices.Equal(r.Vector, make([]float32, 8)) {
			t.Errorf("%s: wrote zeros, read %v", what, r.Vector)
		}
	}
	note("close", d.Close())
	return found
}

// flips are places of the file, by what is there: of each page some of its header, elements, keys and
// values. must are those that Check has to find: blocks, and the root bucket.
func flips(f *dbtest.File, data []byte, rng *rand.Rand) (any, must []int64) {
	between := func(lo, hi int64) int64 { return lo + rng.Int64N(max(1, hi-lo)) }
	for p := range f.Meta.High {
		at := f.Meta.Offset(p)
		if p >= 2 && !f.Walker.Used(p) {
			continue
		}
		any = append(any, between(at, at+16), between(at, at+80), at+10, between(at+16, at+int64(f.Meta.PageSize)))
	}
	for _, p := range f.Pairs {
		if len(p.Key) == codec.KeySize && p.Bucket != string(layout.BucketLabels) && p.Bucket != string(layout.BucketKeys) {
			must = append(must, between(p.At, p.At+codec.HeaderSize), between(p.At+codec.HeaderSize, p.At+int64(len(p.Value))))
		}
	}
	// Elements and headers of buckets, among them fields that no answer depends on, and their names.
	f.Walker.Buckets(func(b page.Bucket) {
		for i := range int64(len(b.Name) + 16) {
			must = append(must, b.At-int64(len(b.Name))+i)
		}
	})
	root := f.Meta.Offset(f.Meta.Root)
	for i := range int64(data[root+10]) * page.ElementSize {
		must = append(must, root+page.HeaderSize+i)
	}
	return any, must
}

func TestDamage(t *testing.T) {
	path := damaged(t)
	want := map[string]string{}
	dbtest.WithFile(t, path, func(_ *db.DB, s *db.Snapshot) {
		ask(t, s, func(call, text string, err error) {
			dbtest.Must(t, err)
			want[call] = text
		})
	})
	pristine, err := os.ReadFile(path)
	dbtest.Must(t, err)
	f, err := dbtest.ReadFile(path)
	dbtest.Must(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	any, must := flips(f, pristine, rng)
	limit := 60
	if testing.Short() {
		limit = 8
	}
	for i, places := range [][]int64{any, must} {
		rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
		for _, at := range places[:min(limit, len(places))] {
			data, bit := bytes.Clone(pristine), rng.IntN(8)
			data[at] ^= 1 << bit
			dbtest.Must(t, os.WriteFile(path, data, 0o600))
			if !verify(t, fmt.Sprintf("bit %d of byte %d", bit, at), path, want, nil) && i == 1 {
				t.Errorf("bit %d of byte %d: not found", bit, at)
			}
		}
	}
	// The file is cut before it is opened, and while it is in use. The last byte that is needed is needed.
	need := f.Meta.Bytes()
	for _, n := range []int64{1, 2 * layout.PageSize, need / 3, need / 2 &^ (layout.PageSize - 1), need - layout.PageSize, need - 1, need} {
		dbtest.Must(t, os.WriteFile(path, pristine[:n], 0o600))
		if found := verify(t, fmt.Sprintf("cut to %d bytes", n), path, want, nil); found != (n < need) {
			t.Errorf("cut to %d of %d bytes: found %v", n, need, found)
		}
		dbtest.Must(t, os.WriteFile(path, pristine, 0o600))
		verify(t, fmt.Sprintf("cut to %d bytes while open", n), path, want, func() { dbtest.Must(t, os.Truncate(path, n)) })
	}
}
