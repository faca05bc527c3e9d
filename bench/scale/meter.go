package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
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
					m.stages[n-1].peak = max(m.stages[n-1].peak, statusOf("RssAnon:"))
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
	m.stages = append(m.stages, stage{name: name, began: time.Now(), peak: statusOf("RssAnon:")})
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

// counts is what the process has read.
type counts struct {
	faults int64 // page faults that waited for the disk
	bytes  int64 // from the disk
}

func reads() (c counts) {
	c.bytes = numberIn("/proc/self/io", "read_bytes:")
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return c
	}
	// The fields after the name of the command, which is in brackets, begin with the third.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) > majorFaults-3 {
		c.faults, _ = strconv.ParseInt(string(fields[majorFaults-3]), 10, 64)
	}
	return c
}

// majorFaults is the number of the field of /proc/self/stat with the major faults.
const majorFaults = 12

// statusOf returns a number of bytes of the process's status, 0 where there is none.
func statusOf(name string) int64 { return numberIn("/proc/self/status", name) << 10 }

// numberIn returns the number after a name in a file, 0 if it has none.
func numberIn(file, name string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte(name))
	word, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte("\n"))
	n, err := strconv.ParseInt(string(bytes.TrimSuffix(word, []byte(" kB"))), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
