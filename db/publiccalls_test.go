package db_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/rescue"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// handles are what public calls are made with. Its methods are the functions of a caller.
type handles struct {
	d  *db.DB
	s  *db.Snapshot
	c  db.Collection
	tx *db.Tx
	// dir has the file "backup", and is where calls write files.
	dir string
	ctx context.Context
	// back is called by each function of the caller, and may panic.
	back func()
}

func (h handles) Write(p []byte) (int, error) { h.back(); return len(p), nil }

func (h handles) accept([]byte) bool { h.back(); return true }

func (h handles) where() *filter.Filter { return filter.Func(h.accept) }

func (h handles) run() *db.Run { return &db.Run{Progress: func(string, int, int) { h.back() }} }

func (h handles) rows(yield func(db.Row, error) bool) {
	h.back()
	yield(db.Row{Key: []byte("loaded"), Vector: []float32{1, 2, 3}}, nil)
}

// publicCall is a call of the API.
type publicCall struct {
	name          string // that of the method, or of the function
	context, hook bool   // whether it takes a context, and calls functions of the caller
	do            func(h handles) error
	// none makes the call with a nil function, writer or iterator, which it needs.
	none func(h handles) error
}

// last returns the error of an iteration.
func last[T any](of iter.Seq2[T, error]) (err error) {
	for _, err = range of {
	}
	return err
}

// err1 returns the error of a call.
func err1(_ any, err error) error { return err }

// but returns an error unless it is an expected one.
func but(expected, err error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// publicCalls are all calls of the API that use an open file.
func publicCalls() []publicCall {
	q := db.Query{Vector: []float32{1, 2, 3}}
	put := func(tx *db.Tx) error {
		return tx.Collection("c").Put(db.Row{Key: []byte("k"), Vector: []float32{1, 2, 3}})
	}
	forest := &index.Forest{NoTune: true, Seed: 1}
	model := &index.LCIF{Neighbors: db.Flat, Params: &lcif.Params{K: 3, Alpha: 1, Lambda: 0.5, Beta: 1}}
	backup := func(h handles) string { return filepath.Join(h.dir, "backup") }
	return []publicCall{
		{"DB.Backup", true, true, func(h handles) error { return err1(h.d.Backup(h.ctx, h)) },
			func(h handles) error { return err1(h.d.Backup(h.ctx, nil)) }},
		{"DB.Check", true, true, func(h handles) error { return h.d.Check(h.ctx, nil, h.run()) }, nil},
		{"DB.Collections", false, false, func(h handles) error { return err1(h.d.Collections()) }, nil},
		{"DB.Compact", true, false, func(h handles) error { return h.d.Compact(h.ctx, nil) }, nil},
		{"DB.Compact in order", true, true, func(h handles) error {
			return h.d.Compact(h.ctx, &db.CompactOptions{Reorder: true, Run: *h.run()})
		}, nil},
		{"DB.Create", true, false, func(h handles) error {
			return err1(h.d.Create(h.ctx, "another", db.Schema{Dim: 3}))
		}, nil},
		{"DB.Rename", true, false, func(h handles) error { return h.d.Rename(h.ctx, "c", "c") }, nil},
		{"DB.Maintain", true, true, func(h handles) error { return err1(h.d.Maintain(h.ctx, 0, h.run())) }, nil},
		{"DB.Repair", true, false, func(h handles) error { return err1(h.d.Repair(h.ctx, nil)) }, nil},
		{"DB.Snapshot", false, false, func(h handles) error {
			s, err := h.d.Snapshot()
			s.Release()
			return err
		}, nil},
		{"DB.Stats", false, false, func(h handles) error { return err1(h.d.Stats()) }, nil},
		{"DB.Update", true, true, func(h handles) error {
			return h.d.Update(h.ctx, func(tx *db.Tx) error {
				_, err := tx.Collection("c").Get([]byte("a1"))
				h.back()
				return errors.Join(err, put(tx))
			})
		}, func(h handles) error { return h.d.Update(h.ctx, nil) }},
		{"DB.View", false, true, func(h handles) error {
			return h.d.View(func(*db.Snapshot) error { h.back(); return nil })
		}, func(h handles) error { return h.d.View(nil) }},
		{"Collection.Build", true, true,
			func(h handles) error { return err1(h.c.Build(h.ctx, "i", forest, h.run())) }, nil},
		{"Collection.Build of a model", true, true,
			func(h handles) error { return err1(h.c.Build(h.ctx, "m", model, h.run())) }, nil},
		{"Collection.Count", true, true, func(h handles) error { return err1(h.c.Count(h.ctx, h.where())) },
			func(h handles) error { return err1(h.c.Count(h.ctx, filter.Func(nil))) }},
		{"Collection.Get", false, false, func(h handles) error { return err1(h.c.Get([]byte("a1"))) }, nil},
		{"Collection.GetRow", false, false, func(h handles) error { return err1(h.c.GetRow(1)) }, nil},
		{"Collection.Has", false, false, func(h handles) error { return err1(h.c.Has([]byte("a1"))) }, nil},
		{"Collection.Index", false, false, func(h handles) error { return err1(h.c.Index("i")) }, nil},
		{"Collection.Indexes", false, false, func(h handles) error { return err1(h.c.Indexes()) }, nil},
		{"Collection.Info", false, false, func(h handles) error { return err1(h.c.Info()) }, nil},
		{"Collection.Keys", false, true, func(h handles) (err error) {
			for _, err = range h.c.Keys(nil, nil) {
				h.back()
			}
			return err
		}, nil},
		{"Collection.Labels", false, false, func(h handles) error { return err1(h.c.Labels()) }, nil},
		{"Collection.Load", true, true, func(h handles) error { return err1(h.c.Load(h.ctx, h.rows, nil)) },
			func(h handles) error { return err1(h.c.Load(h.ctx, nil, nil)) }},
		{"Collection.Load with progress", true, true, func(h handles) error {
			rows := handles{back: func() {}}.rows
			return err1(h.c.Load(h.ctx, rows, &db.LoadOptions{Run: *h.run()}))
		}, nil},
		{"Collection.Load of new rows", true, true, func(h handles) error {
			return but(db.ErrExists, err1(h.c.Load(h.ctx, h.rows, &db.LoadOptions{Insert: true})))
		}, func(h handles) error { return err1(h.c.Load(h.ctx, nil, &db.LoadOptions{Insert: true})) }},
		{"Collection.Matching", true, true,
			func(h handles) error { return err1(h.c.Matching(h.ctx, filter.Not(h.where()))) },
			func(h handles) error { return err1(h.c.Matching(h.ctx, filter.Func(nil))) }},
		{"Collection.MatchingKeys", true, true,
			func(h handles) error { return err1(h.c.MatchingKeys(h.ctx, h.where())) },
			func(h handles) error { return err1(h.c.MatchingKeys(h.ctx, filter.Func(nil))) }},
		{"Collection.Predict", true, true, func(h handles) error {
			return err1(h.c.Predict(h.ctx, q, &db.PredictOptions{Index: "m", Where: h.where()}))
		}, nil},
		{"Collection.PredictBatch", true, true, func(h handles) error {
			o := &db.PredictOptions{Index: "m", Where: h.where()}
			return err1(h.c.PredictBatch(h.ctx, []db.Query{q, q}, o))
		}, nil},
		{"Collection.RowFilter", false, false, func(h handles) error { return err1(h.c.RowFilter(nil)) }, nil},
		{"Collection.Rows", true, true, func(h handles) (err error) {
			for _, err = range h.c.Rows(h.ctx, nil) {
				h.back()
			}
			return err
		}, func(h handles) error { return last(h.c.Rows(h.ctx, filter.Func(nil))) }},
		{"Collection.Rows with a function", true, true,
			func(h handles) error { return last(h.c.Rows(h.ctx, h.where())) }, nil},
		{"Collection.Search", true, true, func(h handles) error {
			return err1(h.c.Search(h.ctx, q, &db.SearchOptions{Where: h.where(), Index: db.Flat}))
		}, func(h handles) error {
			return err1(h.c.Search(h.ctx, q, &db.SearchOptions{Where: filter.Func(nil), Index: db.Flat}))
		}},
		{"Collection.Search of an index", true, false, func(h handles) error {
			p := &query.Params{Method: query.Natural, Trees: 1, K: 3}
			return err1(h.c.Search(h.ctx, q, &db.SearchOptions{Params: p, Index: "i"}))
		}, nil},
		{"Collection.Search by parameters", true, true, func(h handles) error {
			p := &query.Params{Method: query.Flat, K: 3, Accept: func(uint32) bool { return h.accept(nil) }}
			return err1(h.c.Search(h.ctx, q, &db.SearchOptions{Params: p, Index: db.Flat}))
		}, nil},
		{"Collection.SearchBatch", true, true, func(h handles) error {
			many := slices.Repeat([]db.Query{q}, 20) // more than one goroutine takes at a time
			return err1(h.c.SearchBatch(h.ctx, many, &db.SearchOptions{Index: db.Flat, Where: h.where()}))
		}, nil},
		{"Collection.TreePicture", false, false,
			func(h handles) error { return err1(h.c.TreePicture("t", nil)) }, nil},
		{"Collection.SetDefault", true, false, func(h handles) error { return h.c.SetDefault(h.ctx, "i") }, nil},
		{"Collection.SetSchema", true, false, func(h handles) error {
			info, err := h.c.Info()
			if err != nil {
				return err
			}
			info.Meta = map[string]string{"model": "a"}
			return h.c.SetSchema(h.ctx, info.Schema, nil)
		}, nil},
		{"Collection.TuneFusion", true, false, func(h handles) error {
			err := err1(h.c.TuneFusion(h.ctx, []db.Query{q}, [][]byte{[]byte("a1")}, nil, nil))
			if h.ctx == nil {
				return err
			}
			return but(db.ErrInvalid, err) // the rows have vectors only
		}, nil},
		{"Collection.DropIndex", true, false, func(h handles) error {
			return but(db.ErrNotFound, h.c.DropIndex(h.ctx, "no index"))
		}, nil},
		{"DB.Drop", true, false, func(h handles) error {
			return but(db.ErrNotFound, h.d.Drop(h.ctx, "no collection"))
		}, nil},
		{"Open", true, false, func(h handles) error {
			d, err := dbtest.Open(h.ctx, backup(h), &db.Options{NoSync: true})
			if err == nil {
				err = d.Close()
			}
			return err
		}, nil},
		{"Restore", true, false, func(h handles) error {
			return db.Restore(h.ctx, backup(h), filepath.Join(h.dir, "restored"), true)
		}, nil},
		{"Salvage", true, true, func(h handles) error {
			to := filepath.Join(h.dir, "salvaged")
			_ = os.Remove(to) // of an earlier call
			return err1(rescue.Salvage(h.ctx, backup(h), to, &rescue.Options{Run: *h.run()}))
		}, nil},
	}
}

// callBed is a file with every kind of index that a call needs.
func callBed(t *testing.T) (*bed, handles) {
	b := newBed(t, vector.L2, 3)
	b.Put("a", dbtest.Mixture(1, 60, 3))
	for name, o := range map[string]index.Options{
		"i": &index.Forest{NoTune: true, Seed: 1}, "t": &index.Trees{Kind: "pt", Budget: 2},
		"m": &index.LCIF{Neighbors: db.Flat, Params: &lcif.Params{K: 3, Alpha: 1, Lambda: 0.5, Beta: 1}},
	} {
		b.Build(name, o)
	}
	h := handles{d: b.D, c: b.D.Collection("c"), dir: t.TempDir(), ctx: t.Context(), back: func() {}}
	var file bytes.Buffer
	_, err := b.D.Backup(t.Context(), &file)
	b.Must(err)
	b.Must(os.WriteFile(filepath.Join(h.dir, "backup"), file.Bytes(), 0o600))
	return b, h
}

// holdsNothing checks that an earlier call has left nothing that later ones would wait for.
func (b *bed) holdsNothing(after string) {
	b.T.Helper()
	b.Must(b.D.Update(b.T.Context(), func(tx *db.Tx) error {
		return tx.Collection("c").Put(db.Row{Key: []byte(after), Vector: []float32{1, 2, 3}})
	}))
	b.Must(b.D.Rename(b.T.Context(), "c", "c"))
	_, err := b.D.Maintain(b.T.Context(), 1, nil)
	b.Must(err)
	st, err := b.D.Stats()
	b.Must(err)
	if st.Snapshots != 0 {
		b.T.Fatalf("after %s: %d snapshots are held", after, st.Snapshots)
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(b.Path), "*"))
	b.Must(err)
	hidden, err := filepath.Glob(filepath.Join(filepath.Dir(b.Path), ".*"))
	b.Must(err)
	if len(files)+len(hidden) != 1 {
		b.T.Fatalf("after %s: files %q %q", after, files, hidden)
	}
}

// panicOf returns the value with which a function panics, nil if it does not.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// panics are what functions of a caller panic with.
var panics = map[string]func(){
	"string": func() { panic("mine") },
	"error":  func() { panic(io.ErrUnexpectedEOF) },
	"index":  func() { var s []int; _ = s[len(s)] },
	"nil":    func() { var p *int; *p = 1 },
}

// Every call refuses nil contexts, functions, writers and iterators, and works on the zero value of
// its handle like on a closed one.
func TestPublicCallsRefuse(t *testing.T) {
	b, h := callBed(t)
	zero := map[string]handles{
		"zero": {d: &db.DB{}, s: &db.Snapshot{}, tx: &db.Tx{}, dir: h.dir, ctx: h.ctx, back: h.back},
		"nil":  {dir: h.dir, ctx: h.ctx, back: h.back},
	}
	for _, c := range publicCalls() {
		t.Run(c.name, func(t *testing.T) {
			dbtest.Must(t, c.do(h))
			if none := h; c.context {
				none.ctx = nil
				if err := c.do(none); !errors.Is(err, db.ErrInvalid) {
					t.Errorf("nil context: %v", err)
				}
			}
			if c.none != nil {
				if err := c.none(h); !errors.Is(err, db.ErrInvalid) {
					t.Errorf("nil function: %v", err)
				}
			}
			for name, z := range zero {
				if !strings.Contains(c.name, ".") {
					continue // no method
				}
				if err := c.do(z); !errors.Is(err, db.ErrClosed) {
					t.Errorf("%s handle: %v", name, err)
				}
				if !strings.HasPrefix(c.name, "Collection.") {
					continue
				}
				z.c = z.s.Collection("c")
				if err := c.do(z); !errors.Is(err, db.ErrClosed) && !errors.Is(err, db.ErrReadOnly) {
					t.Errorf("%s snapshot: %v", name, err)
				}
			}
		})
	}
	b.holdsNothing("nil")
	for name, z := range zero {
		z.s.Release()
		z.d.PauseMaintenance()()
		if z.d.Path() != "" || z.s.Generation() != 0 || z.s.Collections() != nil || z.c.Name() != "" {
			t.Errorf("%s handles describe something", name)
		}
		if err := z.d.Close(); !errors.Is(err, db.ErrClosed) {
			t.Errorf("%s DB: Close: %v", name, err)
		}
		tx, key, row := z.tx.Collection("c"), []byte("k"), db.Row{Key: []byte("k"), Vector: []float32{1}}
		_, got := tx.Get(key)
		_, has := tx.Has(key)
		for call, err := range map[string]error{
			"Get": got, "Has": has, "Put": tx.Put(row), "Insert": tx.Insert(row), "Delete": tx.Delete(key),
			"SetLabels": tx.SetLabels(key), "SetPayload": tx.SetPayload(key, nil), "SetExpiry": tx.SetExpiry(key, time.Now()),
			"SetAttributes": tx.SetAttributes(key, nil),
		} {
			if !errors.Is(err, db.ErrClosed) {
				t.Errorf("%s Tx: %s: %v", name, call, err)
			}
		}
	}
}

// A closed database refuses every call, and one that is opened for reading every call that writes; both name
// the file. Reading does not change it.
func TestPublicCallsOfClosed(t *testing.T) {
	b, h := callBed(t)
	want := b.content()
	b.Must(errors.Join(b.D.Close(), b.D.Close()))
	before, err := os.ReadFile(b.Path)
	b.Must(err)
	reading := h
	reading.d, err = dbtest.Open(t.Context(), b.Path, &db.Options{ReadOnly: true})
	b.Must(err)
	reading.c = reading.d.Collection("c")
	var refused []string
	for _, c := range publicCalls() {
		if !strings.Contains(c.name, ".") {
			continue // no method
		}
		if err := c.do(h); !errors.Is(err, db.ErrClosed) || !strings.Contains(err.Error(), b.Path) {
			t.Errorf("%s on a closed database: %v", c.name, err)
		}
		if err := c.do(reading); errors.Is(err, db.ErrReadOnly) && strings.Contains(err.Error(), b.Path) {
			refused = append(refused, c.name)
		} else if err != nil {
			t.Errorf("%s on a read-only database: %v", c.name, err)
		}
	}
	if got, want := strings.Join(refused, ", "), "DB.Compact, DB.Compact in order, DB.Create, DB.Rename, DB.Maintain, "+
		"DB.Repair, DB.Update, Collection.Build, Collection.Build of a model, Collection.Load, "+
		"Collection.Load with progress, Collection.Load of new rows, Collection.SetDefault, "+
		"Collection.SetSchema, Collection.TuneFusion, Collection.DropIndex, DB.Drop"; got != want {
		t.Errorf("read-only databases refuse\n%s, want\n%s", got, want)
	}
	b.Must(reading.d.View(func(s *db.Snapshot) error {
		if got := content(t, s); got != want {
			t.Errorf("read-only content\n%s\nwant\n%s", got, want)
		}
		return nil
	}))
	if _, err := dbtest.Open(t.Context(), b.Path, &db.Options{Timeout: 20 * time.Millisecond}); !errors.Is(err, db.ErrLocked) {
		t.Errorf("writing next to a reader: %v", err)
	}
	other, err := dbtest.Open(t.Context(), b.Path, &db.Options{ReadOnly: true})
	b.Must(errors.Join(err, other.Close(), reading.d.Close()))
	if after, err := os.ReadFile(b.Path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("reading has changed the file, %v", err)
	}
}

// A panic of a function of the caller reaches the caller, whatever its value, and leaves nothing held.
func TestPublicCallsPanic(t *testing.T) {
	b, h := callBed(t)
	for _, c := range publicCalls() {
		if !c.hook {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			for name, f := range panics {
				var err error
				h.back = f
				got := panicOf(func() { err = c.do(h) })
				if want := panicOf(f); fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", want, want) {
					t.Errorf("panic %q: %v, %v", name, got, err)
				}
			}
			b.holdsNothing(c.name)
		})
	}
	b.Must(b.D.Close())
}

// panickingContext is a context of which a call of Err panics.
type panickingContext struct {
	context.Context
	calls *atomic.Int64 // until then
}

func (c panickingContext) Err() error {
	if c.calls.Add(-1) == 0 {
		panic("mine")
	}
	return nil
}

// A panic of the context of the caller reaches the caller, wherever it occurs.
func TestPublicCallsContextPanics(t *testing.T) {
	b, h := callBed(t)
	for _, c := range publicCalls() {
		if !c.context {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			for at, panicked := 1, true; panicked && at < 1<<12; at *= 2 {
				var calls atomic.Int64
				calls.Store(int64(at))
				var err error
				h.ctx = panickingContext{context.Background(), &calls}
				got := panicOf(func() { err = c.do(h) })
				panicked = calls.Load() < 1
				if panicked != (got != nil) || panicked && got != "mine" {
					t.Errorf("panic at call %d: %v, %v", at, got, err)
				}
				b.holdsNothing(c.name)
			}
		})
	}
	b.Must(b.D.Close())
}

// The table has every method of the handles.
func TestPublicCallsAreAll(t *testing.T) {
	listed := map[string]bool{
		"DB.Collection": true, "DB.Path": true, "DB.Close": true, "DB.PauseMaintenance": true, // never fail
		"Collection.Name": true,
	}
	for _, c := range publicCalls() {
		listed[c.name] = true
	}
	for _, of := range []any{&db.DB{}, db.Collection{}} {
		for m := range reflect.TypeOf(of).Methods() {
			if name := strings.TrimPrefix(reflect.TypeOf(of).String(), "*")[3:] + "." + m.Name; !listed[name] {
				t.Errorf("no call of %s", name)
			}
		}
	}
}
