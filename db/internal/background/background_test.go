package background

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/compact"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/segment"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/db/internal/txntest"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/vector"
)

// open returns a maintainer of a new file whose goroutine does not run.
func open(t *testing.T) (*Maintainer, *txn.Manager, string) {
	t.Helper()
	m, path := txntest.Open(t)
	c := &compact.Compactor{
		Txn: m, Target: path, Path: path, Store: txntest.Options, Log: slog.New(slog.DiscardHandler),
	}
	o := Options{
		Policy: maintenance.Policy{Every: time.Hour, Share: 0.01, CPU: 1, Memory: 1 << 30, Space: 0.5},
		Limits: DefaultLimits,
		Auto:   func(bool) index.Options { return &index.Postings{} },
	}
	return New(c, segment.New(m), o), m, path
}

// TestCompactionYields: a compaction ends when maintenance is paused, and when a call of the program
// has to wait for it. It leaves nothing.
func TestCompactionYields(t *testing.T) {
	for name, call := range map[string]func(b *Maintainer, m *txn.Manager){
		"pause": func(b *Maintainer, _ *txn.Manager) { b.Pause() },
		"create": func(_ *Maintainer, m *txn.Manager) {
			txntest.Create(t, m, &layout.Collection{Name: "more", Dim: 1, Metric: vector.L2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, m, path := open(t)
			ctx, _ := b.begin(t.Context())
			if !b.beginLarge("") {
				t.Fatal("a compaction may not begin")
			}
			ctx, release, ok := m.TryHold(ctx, txn.AllShares)
			if !ok {
				t.Fatal("the shares are taken")
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				call(b, m)
			}()
			<-ctx.Done()
			_, err := b.compactor.Run(ctx, compact.KeepNumbers)
			release(&err)
			b.end(nil, err, true)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the compaction: %v", err)
			}
			<-done
			left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
			if err != nil || len(left) > 0 {
				t.Errorf("%q are left, %v", left, err)
			}
		})
	}
}

// TestStep: a collection gets an index when it is large enough and does not grow, and the index is
// then maintained. Nothing is done while the program builds an index.
func TestStep(t *testing.T) {
	b, m, path := open(t)
	b.opts.Limits.SparseRows = 20
	step := func(want string) {
		t.Helper()
		b.Look()
		s, err := b.Step(t.Context())
		got := ""
		if s != nil {
			got = s.Action
		}
		if got != want || err != nil {
			t.Errorf("step %q, %v, want %q", got, err, want)
		}
	}
	txntest.Put(t, m, "sparse", 0, 19)
	step("")
	step("") // one row too few
	txntest.Put(t, m, "sparse", 19, 40)
	step("") // it grows
	done := b.LeaveTo("sparse")
	step("") // the program builds one
	done()
	step("build")
	step("")
	txntest.Put(t, m, "sparse", 40, 46)
	step("segment")
	step("")
	b.opts.Limits.Rest = 0
	step("relearn")
	step("")
	txntest.Check(t, m, path)
	if st, _ := b.Stats(); st.Made != 1 || st.Err != nil || st.Last.Action != "relearn" || st.Large || st.Paused {
		t.Errorf("%+v", st)
	}
}

// TestNone: a nil maintainer does nothing.
func TestNone(t *testing.T) {
	var b *Maintainer
	b.LeaveTo("x")()
	b.Pause()
	b.Resume()
	if _, ok := b.Stats(); ok || b.Stop(nil) != nil {
		t.Error("a nil maintainer has statistics, or does not stop")
	}
}

// TestReplaced: a file that its path does not lead to is not maintained.
func TestReplaced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not rename open files")
	}
	b, m, path := open(t)
	b.opts.Limits.SparseRows = 20
	txntest.Put(t, m, "sparse", 0, 40)
	b.Look()
	b.Look()
	txntest.Must(t, os.Rename(path, path+".old"))
	for range 2 {
		if s, err := b.Step(t.Context()); s != nil || !errors.Is(err, fail.ErrReplaced) {
			t.Errorf("step %v, %v", s, err)
		}
	}
	if st, _ := b.Stats(); !errors.Is(st.Err, fail.ErrReplaced) {
		t.Errorf("%+v", st)
	}
}
