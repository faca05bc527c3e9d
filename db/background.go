package db

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anndb/anndb/db/internal/fail"
)

// Maintenance is the policy by which a database maintains itself in the background
// (Options.Maintenance). It maintains indexes as DB.Maintain does, builds an index where a
// collection has none, and compacts the file; Collection.Build, DB.Maintain and DB.Compact do
// each of these by call. The zero value does all of it, within the bounds of the fields.
//
// A build or compaction in the background ends without a trace if a call of the program would
// have to wait for it. It is repeated later, such that failed attempts take at most a tenth of
// the time.
type Maintenance struct {
	// Manual leaves all maintenance to calls.
	Manual bool
	// Every is the interval between looks for work, 10 s when zero.
	Every time.Duration
	// Share is the minimum share of changed rows at which an index is maintained, as in
	// MaintainOptions; 0.01 when zero.
	Share float64
	// CPU bounds the work to that share of one processor, averaged over a step and the pause
	// after it: 0.5 when zero, at most 1. Builds, and steps that retrain trees, are then
	// single-threaded.
	CPU float64
	// Build selects whether a collection without an index that finds rows gets one: an index
	// named "auto", built as by Auto. It is built once an exact scan takes about a millisecond,
	// that is, from 4 million coordinates and 1,000 rows on, or from 2,000 sparse rows on, and
	// once less than a tenth of the rows have been written within Every. A search that names no
	// index then uses it, for dense rows with SearchOptions.Recall instead of exactly.
	//
	// The program's own indexes take precedence: see Collection.Build and
	// Collection.DropIndex.
	Build Switch
	// Memory bounds the memory of such a build, by an estimate: 2 GiB when zero. A dense row
	// takes about 16 bytes per coordinate and 2,000 bytes, a feature of a sparse row 40 bytes. A
	// larger collection gets no index, nor does one whose index might take more than half of
	// what is left on the disk or below Options.MaxSize. An index that exists is retrained
	// whatever its size.
	Memory int64
	// Space is the share of the file in free pages above which the file is compacted, if they
	// take at least 16 MiB: 0.5 when zero, 1 for never. Such a compaction keeps the numbers of
	// rows, and so the deleted rows, which DB.Compact removes. It needs room on the disk for two
	// copies without the free pages. There is none on Windows.
	Space float64
}

// maintainByDefault is off in tests that count steps and states.
var maintainByDefault = true

func (m Maintenance) resolve() (Maintenance, error) {
	if m.Every == 0 {
		m.Every = 10 * time.Second
	}
	if m.Share == 0 {
		m.Share = 0.01
	}
	if m.CPU == 0 {
		m.CPU = 0.5
	}
	if m.Memory == 0 {
		m.Memory = 2 << 30
	}
	if m.Space == 0 {
		m.Space = 0.5
	}
	if m.Memory < 0 || !(m.Space > 0 && m.Space <= 1) {
		return m, fmt.Errorf("%w: maintenance builds in %d bytes of memory, compacts above a share of %g "+
			"in free pages", fail.Option, m.Memory, m.Space)
	}
	if err := m.Build.check("Maintenance.Build"); err != nil {
		return m, err
	}
	if m.Every < 0 || !(m.Share > 0) || !(m.CPU > 0 && m.CPU <= 1) {
		return m, fmt.Errorf("%w: maintenance every %v, by share %g, on %g of a processor",
			fail.Option, m.Every, m.Share, m.CPU)
	}
	return m, nil
}

// MaintenanceStats describes the maintenance done since the database was opened, by calls or in
// the background.
type MaintenanceStats struct {
	// Background reports whether background maintenance is enabled, Paused whether it is
	// paused, Working whether a step is running, in the background or by a call.
	Background, Paused, Working bool
	// Steps counts all completed steps, without the builds and compactions that the program
	// calls. Last is the latest step of the background.
	Steps uint64
	Last  MaintainStep
	// Error is the error of the last background step, empty if it succeeded.
	Error string
}

// maintainer is the goroutine that maintains the database in the background. It is nil if
// maintenance is manual.
type maintainer struct {
	stop context.CancelFunc
	done chan struct{}
	made atomic.Uint64 // number of builds and compactions

	mu     sync.Mutex
	paused bool
	resume chan struct{}      // closed by ResumeMaintenance; nil unless paused
	cancel context.CancelFunc // of the running step
	last   MaintainStep
	err    error
	large  bool   // the running step is a build or a compaction
	coll   string // the collection that it builds an index of
	// building counts the builds of the program, by collection.
	building map[string]int
}

// startMaintenance starts the background maintainer.
func (d *DB) startMaintenance(o Maintenance) {
	ctx, stop := context.WithCancel(context.Background())
	m := &maintainer{stop: stop, done: make(chan struct{}), building: map[string]int{}}
	d.background = m
	d.txn.OnWait = m.cancelLarge
	go func() {
		defer close(m.done)
		m.run(ctx, d, o)
	}()
}

// stopMaintenance stops the background maintainer and waits for its end until the deadline.
func (d *DB) stopMaintenance(deadline <-chan time.Time) error {
	m := d.background
	if m == nil {
		return nil
	}
	m.stop()
	select {
	case <-m.done:
		return nil
	case <-deadline:
		return fmt.Errorf("%w: maintenance", ErrBusy)
	}
}

// run makes steps while there is work, pauses between them, and looks for work every o.Every.
func (m *maintainer) run(ctx context.Context, d *DB, o Maintenance) {
	ctx = WithWorkers(ctx, 1)
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
	p := newPolicy(d, o)
	for rest(o.Every) {
		p.look()
		for {
			stepCtx, ok := m.begin(ctx)
			if !ok {
				return
			}
			start := time.Now()
			step, err := p.step(stepCtx)
			if m.end(step, err, stepCtx.Err() != nil) {
				d.log.Warn("db: maintenance", "path", d.path, "err", err)
			}
			if !rest(time.Duration(float64(time.Since(start)) * (1/o.CPU - 1))) {
				return
			}
			if step == nil {
				break
			}
		}
	}
}

// begin waits while maintenance is paused and returns a context for the step, which
// PauseMaintenance cancels.
func (m *maintainer) begin(ctx context.Context) (context.Context, bool) {
	for {
		m.mu.Lock()
		if !m.paused {
			step, cancel := context.WithCancel(ctx)
			m.cancel = cancel
			m.mu.Unlock()
			return step, ctx.Err() == nil
		}
		resume := m.resume
		m.mu.Unlock()
		select {
		case <-resume:
		case <-ctx.Done():
			return ctx, false
		}
	}
}

// end records the result of a step and reports whether its error is a new one.
func (m *maintainer) end(s *MaintainStep, err error, cancelled bool) (failed bool) {
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
func (m *maintainer) beginLarge(coll string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.building[coll] > 0 {
		return false
	}
	m.large, m.coll = true, coll
	return true
}

// cancelLarge cancels a running build or compaction.
func (m *maintainer) cancelLarge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.large {
		m.cancel()
	}
}

// leaveTo leaves the building of indexes of a collection to the program until done is called.
func (m *maintainer) leaveTo(coll string) (done func()) {
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

// PauseMaintenance stops background maintenance until ResumeMaintenance. It cancels a running
// step, which loses only the work of that step. It does nothing if maintenance is manual.
func (d *DB) PauseMaintenance() {
	m := d.background
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

// ResumeMaintenance continues background maintenance after PauseMaintenance.
func (d *DB) ResumeMaintenance() {
	m := d.background
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

// maintenanceStats returns the statistics of maintenance.
func (d *DB) maintenanceStats() MaintenanceStats {
	st := MaintenanceStats{Steps: d.indexes.Steps(), Working: d.indexes.Working()}
	if m := d.background; m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		st.Background, st.Paused, st.Last = true, m.paused, m.last
		st.Working = st.Working || m.large
		st.Steps += m.made.Load()
		if m.err != nil {
			st.Error = m.err.Error()
		}
	}
	return st
}
