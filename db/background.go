package db

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/anndb/anndb/db/internal/fail"
)

// Maintenance is the policy by which indexes follow writes in the background
// (Options.Maintenance).
type Maintenance struct {
	// Manual leaves all maintenance to calls of DB.Maintain.
	Manual bool
	// Every is the interval between looks for work, 10 s when zero.
	Every time.Duration
	// Share is the minimum share of changed rows at which an index is maintained, as in
	// MaintainOptions; 0.01 when zero.
	Share float64
	// CPU bounds the work to that share of one processor, averaged over a step and the pause
	// after it: 0.5 when zero, at most 1. Steps that retrain trees are then single-threaded.
	CPU float64
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
	// Steps counts all completed steps. Last is the latest step of the background.
	Steps uint64
	Last  MaintainStep
	// Error is the error of the last background step, empty if it succeeded.
	Error string
}

// maintainer is the goroutine that maintains indexes in the background.
type maintainer struct {
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	paused bool
	resume chan struct{}      // closed by ResumeMaintenance; nil unless paused
	cancel context.CancelFunc // of the running step
	last   MaintainStep
	err    error
}

// startMaintenance starts the background maintainer.
func (d *DB) startMaintenance(o Maintenance) {
	ctx, stop := context.WithCancel(context.Background())
	m := &maintainer{stop: stop, done: make(chan struct{})}
	d.background = m
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
	for rest(o.Every) {
		for {
			stepCtx, ok := m.begin(ctx)
			if !ok {
				return
			}
			start := time.Now()
			step, err := d.maintainOnce(stepCtx, o.Share)
			m.end(step, err, stepCtx.Err() != nil)
			if err != nil && stepCtx.Err() == nil {
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

// end records the result of a step.
func (m *maintainer) end(s *MaintainStep, err error, cancelled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cancel()
	m.cancel = nil
	if s != nil {
		m.last = *s
	}
	if !cancelled {
		m.err = err
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
	st := MaintenanceStats{Steps: d.steps.Load(), Working: len(d.maintaining) > 0}
	if m := d.background; m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		st.Background, st.Paused, st.Last = true, m.paused, m.last
		if m.err != nil {
			st.Error = m.err.Error()
		}
	}
	return st
}
