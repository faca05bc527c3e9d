package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/anndb/anndb/bench/internal/process"
	"github.com/anndb/anndb/db"
)

// meter records the time and the largest memory of each stage of a build: the pages of the process that
// are not those of files, which the system cannot drop.
type meter struct {
	mu      sync.Mutex
	stages  []stage
	stopped chan struct{}
}

type stage struct {
	name  string
	began time.Time
	took  time.Duration
	peak  int64
}

// sampling is the time between two samples of the memory.
const sampling = 20 * time.Millisecond

func newMeter() *meter {
	m := &meter{stopped: make(chan struct{})}
	go func() {
		for t := time.NewTicker(sampling); ; {
			select {
			case <-m.stopped:
				t.Stop()
				return
			case <-t.C:
				m.mu.Lock()
				if n := len(m.stages); n > 0 {
					m.stages[n-1].peak = max(m.stages[n-1].peak, process.Anonymous())
				}
				m.mu.Unlock()
			}
		}
	}()
	return m
}

func (m *meter) close() { close(m.stopped) }

// stage begins a stage, unless it is the current one.
func (m *meter) stage(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.stages)
	if n > 0 && m.stages[n-1].name == name {
		return
	}
	m.end()
	m.stages = append(m.stages, stage{name: name, began: time.Now(), peak: process.Anonymous()})
}

func (m *meter) end() {
	if n := len(m.stages); n > 0 {
		m.stages[n-1].took = time.Since(m.stages[n-1].began)
	}
}

// print writes a line for each stage.
func (m *meter) print() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end()
	for _, s := range m.stages {
		fmt.Printf("%-16s %8.1f s %8d MB\n", s.name, s.took.Seconds(), s.peak>>20)
	}
}

// run returns how a long call runs whose stages the meter records.
func (m *meter) run() db.Run {
	return db.Run{Progress: func(stage string, _, _ int) { m.stage(stage) }}
}
