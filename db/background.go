package db

import (
	"github.com/anndb/anndb/db/internal/background"
	"github.com/anndb/anndb/db/maintenance"
)

// maintainByDefault is off in tests that count steps and states.
var maintainByDefault = true

// limits are lower in tests.
var limits = background.DefaultLimits

// newMaintainer returns what maintains the database in the background.
func (d *DB) newMaintainer() *background.Maintainer {
	return background.New(d.compactor, d.indexes, background.Options{
		Policy: *d.opts.Maintenance,
		Auto:   defaultOptions,
		Limits: limits,
	})
}

// PauseMaintenance stops background maintenance until resume is called. It cancels a running step,
// which loses only the work of that step. It does nothing if maintenance is manual.
func (d *DB) PauseMaintenance() (resume func()) {
	if d == nil {
		return func() {}
	}
	d.background.Pause()
	return d.background.Resume
}

// maintenanceStats returns the statistics of maintenance.
func (d *DB) maintenanceStats() maintenance.Stats {
	st := maintenance.Stats{Steps: d.indexes.Steps(), Working: d.indexes.Working()}
	if m, ok := d.background.Stats(); ok {
		st.Background, st.Paused, st.Last = true, m.Paused, m.Last
		st.Working = st.Working || m.Large
		st.Steps += m.Made
		if m.Err != nil {
			st.Error = m.Err.Error()
		}
	}
	return st
}
