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
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// handles are what public calls are made with.
type handles struct {
	d  *db.DB
	s  *db.Snapshot
	c  db.Collection
	tx *db.Tx
	// dir has the file "backup", and is where calls write files.
	dir string
}

// hooks are the functions of a caller. Each calls back, which may panic.
type hooks struct{ back func() }

func (h hooks) Write(p []byte) (int, error) {
	h.back()
	return len(p), nil
}

func (h hooks) accept([]byte) bool {
	h.back()
	return true
}

func (h hooks) rows(yield func(db.Row, error) bool) {
	h.back()
	yield(db.Row{Key: []byte("loaded"), Vector: []float32{1, 2, 3}}, nil)
}

// publicCall is a call of the API. What is nil does not apply to it.
type publicCall struct {
	name string // that of the method, or of the function
	do   func(h handles, ctx context.Context) error
	// context is set if the call takes a context.
	context bool
	// none makes the call with a nil function, writer or iterator, which it needs.
	none func(h handles) error
	// hook makes the call with functions of the caller.
	hook func(h handles, ctx context.Context, f hooks) error
}

// last returns the error of an iteration.
func last[T any](of iter.Seq2[T, error]) (err error) {
	for _, err = range of {
	}
	return err
}

// publicCalls are all calls of the API that use an open file.
func publicCalls() []publicCall {
	q := db.Query{Vector: []float32{1, 2, 3}}
	byFunc := func(f hooks) *db.Filter { return db.Func(f.accept) }
	put := func(tx *db.Tx) error {
		return tx.Collection("c").Put(db.Row{Key: []byte("k"), Vector: []float32{1, 2, 3}})
	}
	err1 := func(_ any, err error) error { return err }
	forest := &db.Forest{NoTune: true, Seed: 1}
	model := &db.LCIF{Neighbors: db.Flat, Params: &lcif.Params{K: 3, Alpha: 1, Lambda: 0.5, Beta: 1}}
	with := func(f hooks) *db.Run {
		return &db.Run{Progress: func(string, int, int) { f.back() }}
	}
	loaded := hooks{func() {}}.rows
	return []publicCall{
		{name: "DB.Backup", context: true,
			do:   func(h handles, ctx context.Context) error { return err1(h.d.Backup(ctx, io.Discard)) },
			none: func(h handles) error { return err1(h.d.Backup(context.Background(), nil)) },
			hook: func(h handles, ctx context.Context, f hooks) error { return err1(h.d.Backup(ctx, f)) }},
		{name: "DB.Check", context: true,
			do: func(h handles, ctx context.Context) error { return h.d.Check(ctx, nil, nil) },
			hook: func(h handles, ctx context.Context, f hooks) error {
				return h.d.Check(ctx, nil, with(f))
			}},
		{name: "DB.Collections", do: func(h handles, _ context.Context) error { return err1(h.d.Collections()) }},
		{name: "DB.Compact", context: true,
			do: func(h handles, ctx context.Context) error { return h.d.Compact(ctx, nil) }},
		{name: "DB.Compact in order", context: true,
			do: func(h handles, ctx context.Context) error { return h.d.Compact(ctx, &db.CompactOptions{Reorder: true}) },
			hook: func(h handles, ctx context.Context, f hooks) error {
				return h.d.Compact(ctx, &db.CompactOptions{Reorder: true, Run: *with(f)})
			}},
		{name: "DB.Create", context: true, do: func(h handles, ctx context.Context) error {
			return err1(h.d.Create(ctx, "another", db.Schema{Dim: 3}))
		}},
		{name: "DB.Rename", context: true,
			do: func(h handles, ctx context.Context) error { return h.d.Rename(ctx, "c", "c") }},
		{name: "DB.Maintain", context: true,
			do: func(h handles, ctx context.Context) error { return err1(h.d.Maintain(ctx, 0, nil)) },
			hook: func(h handles, ctx context.Context, f hooks) error {
				return err1(h.d.Maintain(ctx, 0, with(f)))
			}},
		{name: "DB.Repair", context: true,
			do: func(h handles, ctx context.Context) error { return err1(h.d.Repair(ctx, nil)) }},
		{name: "DB.Snapshot", do: func(h handles, _ context.Context) error {
			s, err := h.d.Snapshot()
			s.Release()
			return err
		}},
		{name: "DB.Stats", do: func(h handles, _ context.Context) error { return err1(h.d.Stats()) }},
		{name: "DB.Update", context: true,
			do:   func(h handles, ctx context.Context) error { return h.d.Update(ctx, put) },
			none: func(h handles) error { return h.d.Update(context.Background(), nil) },
			hook: func(h handles, ctx context.Context, f hooks) error {
				return h.d.Update(ctx, func(tx *db.Tx) error {
					_, err := tx.Collection("c").Get([]byte("a1"))
					f.back()
					return errors.Join(err, put(tx))
				})
			}},
		{name: "DB.View",
			do: func(h handles, _ context.Context) error {
				return h.d.View(func(*db.Snapshot) error { return nil })
			},
			none: func(h handles) error { return h.d.View(nil) },
			hook: func(h handles, _ context.Context, f hooks) error {
				return h.d.View(func(*db.Snapshot) error { f.back(); return nil })
			}},
		{name: "Collection.Build", context: true,
			do: func(h handles, ctx context.Context) error { return err1(h.c.Build(ctx, "i", forest, nil)) },
			hook: func(h handles, ctx context.Context, f hooks) error {
				return err1(h.c.Build(ctx, "i", forest, with(f)))
			}},
		{name: "Collection.Build of a model", context: true,
			do: func(h handles, ctx context.Context) error { return err1(h.c.Build(ctx, "m", model, nil)) },
			hook: func(h handles, ctx context.Context, f hooks) error {
				return err1(h.c.Build(ctx, "m", model, with(f)))
			}},
		{name: "Collection.Count", context: true,
			do:   func(h handles, ctx context.Context) error { return err1(h.c.Count(ctx, nil)) },
			none: func(h handles) error { return err1(h.c.Count(context.Background(), db.Func(nil))) },
			hook: func(h handles, ctx context.Context, f hooks) error {
				return err1(h.c.Count(ctx, byFunc(f)))
			}},
		{name: "Collection.Get", do: func(h handles, _ context.Context) error { return err1(h.c.Get([]byte("a1"))) }},
		{name: "Collection.GetRow", do: func(h handles, _ context.Context) error {
			_, err := h.c.GetRow(1)
			return err
		}},
		{name: "Collection.Has", do: func(h handles, _ context.Context) error { return err1(h.c.Has([]byte("a1"))) }},
		{name: "Collection.Index", do: func(h handles, _ context.Context) error { return err1(h.c.Index("i")) }},
		{name: "Collection.Indexes", do: func(h handles, _ context.Context) error { return err1(h.c.Indexes()) }},
		{name: "Collection.Info", do: func(h handles, _ context.Context) error { return err1(h.c.Info()) }},
		{name: "Collection.Keys",
			do: func(h handles, _ context.Context) error { return last(h.c.Keys(nil, nil)) },
			hook: func(h handles, _ context.Context, f hooks) error {
				for range h.c.Keys(nil, nil) {
					f.back()
				}
				return nil
			}},
		{name: "Collection.Labels", do: func(h handles, _ context.Context) error { return err1(h.c.Labels()) }},
		{name: "Collection.LeafSizes", context: true,
			do: func(h handles, ctx context.Context) error { return err1(h.c.LeafSizes(ctx, "i")) }},
		{name: "Collection.Load", context: true,
			do:   func(h handles, ctx context.Context) error { return err1(h.c.Load(ctx, loaded, nil)) },
			none: func(h handles) error { return err1(h.c.Load(context.Background(), nil, nil)) },
			hook: func(h handles, ctx context.Context, f hooks) error { return err1(h.c.Load(ctx, f.rows, nil)) }},
		{name: "Collection.Load with progress",
			hook: func(h handles, _ context.Context, f hooks) error {
				return err1(h.c.Load(context.Background(), loaded, &db.LoadOptions{Run: *with(f)}))
			}},
		{name: "Collection.Load of new rows", context: true,
			do: func(h handles, ctx context.Context) error {
				_, err := h.c.Load(ctx, loaded, &db.LoadOptions{Insert: true})
				if errors.Is(err, db.ErrExists) {
					return nil
				}
				return err
			},
			none: func(h handles) error { return err1(h.c.Load(context.Background(), nil, &db.LoadOptions{Insert: true})) },
			hook: func(h handles, ctx context.Context, f hooks) error {
				return err1(h.c.Load(ctx, f.rows, &db.LoadOptions{Insert: true}))
			}},
		{name: "Collection.Matching", context: true,
			do:   func(h handles, ctx context.Context) error { return err1(h.c.Matching(ctx, nil)) },
			none: func(h handles) error { return err1(h.c.Matching(context.Background(), db.Func(nil))) },
			hook: func(h handles, ctx context.Context, f hooks) error {
				return err1(h.c.Matching(ctx, db.Not(byFunc(f))))
			}},
		{name: "Collection.MatchingKeys", context: true,
			do:   func(h handles, ctx context.Context) error { return err1(h.c.MatchingKeys(ctx, nil)) },
			none: func(h handles) error { return err1(h.c.MatchingKeys(context.Background(), db.Func(nil))) },
			hook: func(h handles, ctx context.Context, f hooks) error {
				return err1(h.c.MatchingKeys(ctx, byFunc(f)))
			}},
		{name: "Collection.Predict", context: true,
			do: func(h handles, ctx context.Context) error {
				_, err := h.c.Predict(ctx, q, &db.PredictOptions{Index: "m"})
				return err
			},
			hook: func(h handles, ctx context.Context, f hooks) error {
				_, err := h.c.Predict(ctx, q, &db.PredictOptions{Index: "m", Where: byFunc(f)})
				return err
			}},
		{name: "Collection.PredictBatch", context: true,
			do: func(h handles, ctx context.Context) error {
				return err1(h.c.PredictBatch(ctx, []db.Query{q, q}, &db.PredictOptions{Index: "m"}))
			},
			hook: func(h handles, ctx context.Context, f hooks) error {
				o := &db.PredictOptions{Index: "m", Where: byFunc(f)}
				return err1(h.c.PredictBatch(ctx, []db.Query{q, q}, o))
			}},
		{name: "Collection.RowFilter", do: func(h handles, _ context.Context) error { return err1(h.c.RowFilter(nil)) }},
		{name: "Collection.Rows", context: true,
			do:   func(h handles, ctx context.Context) error { return last(h.c.Rows(ctx, nil)) },
			none: func(h handles) error { return last(h.c.Rows(context.Background(), db.Func(nil))) },
			hook: func(h handles, ctx context.Context, f hooks) error {
				for _, err := range h.c.Rows(ctx, nil) {
					f.back()
					return err
				}
				return nil
			}},
		{name: "Collection.Rows with a function",
			hook: func(h handles, ctx context.Context, f hooks) error { return last(h.c.Rows(ctx, byFunc(f))) }},
		{name: "Collection.Search", context: true,
			do: func(h handles, ctx context.Context) error {
				_, err := h.c.Search(ctx, q, &db.SearchOptions{Index: db.Flat})
				return err
			},
			none: func(h handles) error {
				_, err := h.c.Search(context.Background(), q, &db.SearchOptions{Where: db.Func(nil), Index: db.Flat})
				return err
			},
			hook: func(h handles, ctx context.Context, f hooks) error {
				_, err := h.c.Search(ctx, q, &db.SearchOptions{Where: byFunc(f), Index: db.Flat})
				return err
			}},
		{name: "Collection.Search by parameters", context: true,
			do: func(h handles, ctx context.Context) error {
				p := &query.Params{Method: query.Natural, Trees: 1, K: 3}
				_, err := h.c.Search(ctx, q, &db.SearchOptions{Params: p, Index: "i"})
				return err
			},
			hook: func(h handles, ctx context.Context, f hooks) error {
				p := &query.Params{Method: query.Flat, K: 3, Accept: func(uint32) bool { f.back(); return true }}
				_, err := h.c.Search(ctx, q, &db.SearchOptions{Params: p, Index: db.Flat})
				return err
			}},
		{name: "Collection.SearchBatch", context: true,
			do: func(h handles, ctx context.Context) error {
				return err1(h.c.SearchBatch(ctx, []db.Query{q, q}, &db.SearchOptions{Index: db.Flat}))
			},
			hook: func(h handles, ctx context.Context, f hooks) error {
				many := make([]db.Query, 20) // more than one goroutine takes at a time
				for i := range many {
					many[i] = q
				}
				o := &db.SearchOptions{Index: db.Flat, Where: byFunc(f)}
				return err1(h.c.SearchBatch(ctx, many, o))
			}},
		{name: "Collection.TreeDecisions", context: true,
			do: func(h handles, ctx context.Context) error {
				_, err := h.c.TreeDecisions(ctx, []db.Query{q, q}, "t")
				return err
			}},
		{name: "Collection.TreePicture", do: func(h handles, _ context.Context) error {
			return err1(h.c.TreePicture("t", nil))
		}},
		{name: "Collection.SetDefault", context: true, do: func(h handles, ctx context.Context) error {
			return h.c.SetDefault(ctx, "i")
		}},
		{name: "Collection.DropIndex", context: true, do: func(h handles, ctx context.Context) error {
			err := h.c.DropIndex(ctx, "no index")
			if errors.Is(err, db.ErrNotFound) {
				return nil
			}
			return err
		}},
		{name: "DB.Drop", context: true, do: func(h handles, ctx context.Context) error {
			err := h.d.Drop(ctx, "no collection")
			if errors.Is(err, db.ErrNotFound) {
				return nil
			}
			return err
		}},
		{name: "Open", context: true, do: func(h handles, ctx context.Context) error {
			d, err := dbtest.Open(ctx, filepath.Join(h.dir, "backup"), &db.Options{NoSync: true})
			if err == nil {
				err = d.Close()
			}
			return err
		}},
		{name: "Peek", context: true, do: func(h handles, ctx context.Context) error {
			return err1(db.Peek(ctx, filepath.Join(h.dir, "backup")))
		}},
		{name: "Restore", context: true, do: func(h handles, ctx context.Context) error {
			return db.Restore(ctx, filepath.Join(h.dir, "backup"), filepath.Join(h.dir, "restored"), true)
		}},
		{name: "Salvage", context: true,
			do: func(h handles, ctx context.Context) error {
				to := filepath.Join(h.dir, "salvaged")
				_ = os.Remove(to) // of an earlier call
				return err1(db.Salvage(ctx, filepath.Join(h.dir, "backup"), to, nil))
			},
			hook: func(h handles, ctx context.Context, f hooks) error {
				to := filepath.Join(h.dir, "salvaged")
				_ = os.Remove(to) // of an earlier call
				return err1(db.Salvage(ctx, filepath.Join(h.dir, "backup"), to, &db.SalvageOptions{Run: *with(f)}))
			}},
	}
}

// callBed is a file with every kind of index that a call needs.
func callBed(t *testing.T) (*bed, handles) {
	b := newBed(t, vector.L2, 3)
	b.Put("a", dbtest.Mixture(1, 60, 3))
	for name, o := range map[string]db.IndexOptions{
		"i": &db.Forest{NoTune: true, Seed: 1}, "t": &db.Trees{Kind: "pt", Budget: 2},
		"m": &db.LCIF{Neighbors: db.Flat, Params: &lcif.Params{K: 3, Alpha: 1, Lambda: 0.5, Beta: 1}},
	} {
		b.Build(name, o)
	}
	h := handles{d: b.D, c: b.D.Collection("c"), dir: t.TempDir()}
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
		"zero": {d: &db.DB{}, s: &db.Snapshot{}, tx: &db.Tx{}, dir: h.dir},
		"nil":  {dir: h.dir},
	}
	for _, c := range publicCalls() {
		t.Run(c.name, func(t *testing.T) {
			if c.do != nil {
				dbtest.Must(t, c.do(h, t.Context()))
			}
			if c.context {
				if err := c.do(h, nil); !errors.Is(err, db.ErrInvalid) {
					t.Errorf("nil context: %v", err)
				}
			}
			if c.none != nil {
				if err := c.none(h); !errors.Is(err, db.ErrInvalid) {
					t.Errorf("nil function: %v", err)
				}
			}
			for name, z := range zero {
				if c.do == nil || !strings.Contains(c.name, ".") {
					continue // no method
				}
				if err := c.do(z, t.Context()); !errors.Is(err, db.ErrClosed) {
					t.Errorf("%s handle: %v", name, err)
				}
				if !strings.HasPrefix(c.name, "Collection.") {
					continue
				}
				z.c = z.s.Collection("c")
				if err := c.do(z, t.Context()); !errors.Is(err, db.ErrClosed) && !errors.Is(err, db.ErrReadOnly) {
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

// A panic of a function of the caller reaches the caller, whatever its value, and leaves nothing held.
func TestPublicCallsPanic(t *testing.T) {
	b, h := callBed(t)
	for _, c := range publicCalls() {
		if c.hook == nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			for name, f := range panics {
				var err error
				got := panicOf(func() { err = c.hook(h, t.Context(), hooks{f}) })
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
				got := panicOf(func() { err = c.do(h, panickingContext{context.Background(), &calls}) })
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
