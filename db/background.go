package db

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Maintenance says how a database maintains its indexes by itself
// (Options.Maintenance). The zero value is a modest default.
type Maintenance struct {
	// Every is how often to look for work, 10 s when zero.
	Every time.Duration
	// Share leaves an index alone until that share of its rows has changed, as
	// in MaintainOptions; 0.01 when zero.
	Share float64
	// CPU bounds the work to that share of one processor, on the average over a
	// step and the rest after it: 0.5 when zero, at most 1. Steps that learn
	// trees anew are single-threaded then.
	CPU float64
}

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
		return m, fmt.Errorf("%w: maintenance every %v, by share %g, on %g of a processor", ErrOption, m.Every, m.Share, m.CPU)
	}
	return m, nil
}

// MaintenanceStats tell what maintenance has done since the database was
// opened, by call or in the background.
type MaintenanceStats struct {
	// Background says that it runs by itself, Paused that it has been told not
	// to, Working that it is at it, by itself or by call.
	Background, Paused, Working bool
	// Steps counts the steps done, Last is the latest of them that the
	// background did.
	Steps uint64
	Last  MaintainStep
	// Error is why the background could not make a step last time, if so.
	Error string
}

// maintainer is the goroutine that maintains in the background.
type maintainer struct {
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	paused bool
	resume chan struct{}      // closed when it may go on; nil unless paused
	cancel context.CancelFunc // of the step under way
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

// stopMaintenance ends it and waits for that until the deadline.
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

// run makes steps as long as there is work, rests in between, and looks again
// after a while.
func (m *maintainer) run(ctx context.Context, d *DB, o Maintenance) {
	opts := MaintainOptions{Share: o.Share, Workers: 1}
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
			step, err := d.maintainOnce(stepCtx, opts)
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

// begin waits until it is not paused and gives the step a context that Pause
// cancels.
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

// end notes how a step ended.
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

// PauseMaintenance keeps the background from working until ResumeMaintenance.
// A step under way is given up, which loses nothing but its work. It does
// nothing without Options.Maintenance.
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

// ResumeMaintenance lets the background go on.
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

// maintenanceStats tells about maintenance.
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
