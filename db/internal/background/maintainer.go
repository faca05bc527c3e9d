// Package background maintains a file in the background: it decides when an index is maintained, when
// one is built and when the file is compacted, and makes way for the program.
package background

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anndb/anndb/db/internal/compact"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/segment"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/db/maintenance"
)

// Maintainer maintains a file in the background. A nil one, for a file whose maintenance is left to
// calls, does nothing.
type Maintainer struct {
	txn       *txn.Manager
	indexes   *segment.Indexer
	compactor *compact.Compactor
	opts      Options
	policy    policy

	stop context.CancelFunc
	done chan struct{}
	made atomic.Uint64 // number of builds, compactions and deletions of expired rows

	mu     sync.Mutex
	paused bool
	resume chan struct{}      // closed by Resume; nil unless paused
	cancel context.CancelFunc // of the running step
	last   maintenance.Step
	err    error
	large  bool   // the running step is a build or a compaction
	coll   string // the collection that it builds an index of
	// building counts the builds of the program, by collection.
	building map[string]int
}

// New returns a maintainer of a file, which does nothing before Start.
func New(c *compact.Compactor, x *segment.Indexer, o Options) *Maintainer {
	m := &Maintainer{
		txn: c.Txn, indexes: x, compactor: c, opts: o, done: make(chan struct{}), building: map[string]int{},
	}
	m.policy = policy{floor: o.Limits.Free, failed: map[uint64]failedBuild{}}
	c.Txn.OnWait = m.cancelLarge
	return m
}

// Start starts the goroutine that makes steps.
func (m *Maintainer) Start() {
	var ctx context.Context
	ctx, m.stop = context.WithCancel(context.Background())
	go func() {
		defer close(m.done)
		m.run(ctx)
	}()
}

// Stop ends the goroutine, and waits for that until the deadline.
func (m *Maintainer) Stop(deadline <-chan time.Time) error {
	if m == nil {
		return nil
	}
	m.stop()
	select {
	case <-m.done:
		return nil
	case <-deadline:
		return fmt.Errorf("%w: maintenance", fail.ErrLocked)
	}
}

// run makes steps while there is work, pauses between them, and looks for work every opts.Every. When it
// begins to is drawn: files that are opened together, as the replicas of a cluster are, would do the same
// work at the same time.
func (m *Maintainer) run(ctx context.Context) {
	rest := func(t time.Duration) bool {
		timer := time.NewTimer(t)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for wait := m.opts.Every/2 + rand.N(m.opts.Every); rest(wait); wait = m.opts.Every {
		m.Look()
		for step := new(maintenance.Step); step != nil; {
			if !m.awaitResume(ctx) {
				return
			}
			start := time.Now()
			step, _ = m.Step(ctx) // it keeps the error
			if !rest(time.Duration(float64(time.Since(start)) * (1/m.opts.CPU - 1))) {
				return
			}
		}
	}
}

// Step makes one step, if one is due, as soon as maintenance is not paused. It logs an error unless
// the last step had the same.
func (m *Maintainer) Step(ctx context.Context) (*maintenance.Step, error) {
	stepCtx, ok := m.begin(kind.WithWorkers(ctx, 1))
	if !ok {
		return nil, ctx.Err()
	}
	step, err := m.next(stepCtx)
	if m.end(step, err, stepCtx.Err() != nil) {
		m.compactor.Log.Warn("db: maintenance", "path", m.compactor.Path, "err", err)
	}
	return step, err
}

// awaitResume waits while maintenance is paused and reports whether the context has not ended.
func (m *Maintainer) awaitResume(ctx context.Context) bool {
	for {
		m.mu.Lock()
		resume := m.resume
		if !m.paused {
			resume = nil
		}
		m.mu.Unlock()
		if resume == nil {
			return ctx.Err() == nil
		}
		select {
		case <-resume:
		case <-ctx.Done():
			return false
		}
	}
}

// begin waits while maintenance is paused and returns a context for the step, which Pause cancels.
func (m *Maintainer) begin(ctx context.Context) (context.Context, bool) {
	for m.awaitResume(ctx) {
		m.mu.Lock()
		if !m.paused {
			step, cancel := context.WithCancel(ctx)
			m.cancel = cancel
			m.mu.Unlock()
			return step, true
		}
		m.mu.Unlock()
	}
	return nil, false
}

// end records the result of a step and reports whether its error is a new one.
func (m *Maintainer) end(s *maintenance.Step, err error, cancelled bool) (failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cancel()
	m.cancel, m.large = nil, false
	if s != nil {
		m.last = *s
	}
	if cancelled {
		return false
	}
	failed = err != nil && (m.err == nil || m.err.Error() != err.Error())
	m.err = err
	return failed
}

// beginLarge marks the running step as a build of an index of a collection or, without a name,
// as a compaction. It returns false if the program is building an index of the collection.
func (m *Maintainer) beginLarge(coll string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.building[coll] > 0 {
		return false
	}
	m.large, m.coll = true, coll
	return true
}

// cancelLarge cancels a running build or compaction.
func (m *Maintainer) cancelLarge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.large {
		m.cancel()
	}
}

// LeaveTo leaves the building of indexes of a collection to the program until done is called.
func (m *Maintainer) LeaveTo(coll string) (done func()) {
	if m == nil {
		return func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.building[coll]++
	if m.large && m.coll == coll {
		m.cancel()
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.building[coll]--; m.building[coll] == 0 {
			delete(m.building, coll)
		}
	}
}

// Pause cancels a running step and makes none before Resume.
func (m *Maintainer) Pause() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.paused {
		m.paused, m.resume = true, make(chan struct{})
	}
	if m.cancel != nil {
		m.cancel()
	}
}

// Resume continues after Pause.
func (m *Maintainer) Resume() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.paused {
		m.paused = false
		close(m.resume)
	}
}

// Stats describes what a maintainer does and has done.
type Stats struct {
	Paused bool
	// Large reports whether a build or a compaction is running, Made is the number of completed ones and of
	// deletions of expired rows.
	Large bool
	Made  uint64
	// Last is the latest step, Err the error of the latest one, nil if it succeeded.
	Last maintenance.Step
	Err  error
}

// Stats returns the statistics. ok is false for a nil maintainer.
func (m *Maintainer) Stats() (st Stats, ok bool) {
	if m == nil {
		return st, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return Stats{Paused: m.paused, Large: m.large, Made: m.made.Load(), Last: m.last, Err: m.err}, true
}
