package faultfs

import (
	"os"
	"path/filepath"
	"syscall"
)

// Target is what a fault is about.
type Target string

// The targets.
const (
	Writes    Target = "write"
	Syncs     Target = "fsync"     // of files and directories
	DirSyncs  Target = "dir fsync" // of directories alone
	Truncates Target = "truncate"
	Entries   Target = "entry" // creating, linking, renaming and removing
)

// Mode is how a fault fails.
type Mode string

// The modes.
const (
	// Once fails one call with EIO. Of a write, half has been written then; of
	// an fsync, what was not durable is lost, as it is when a kernel has given
	// up its dirty pages.
	Once Mode = "once"
	// Dead fails that call and all changes after it with EIO.
	Dead Mode = "dead"
	// Full cuts a write short, or fails another call, and fails all later
	// writes and truncations with ENOSPC.
	Full Mode = "full"
)

// fault is what is to fail and what has been seen.
type fault struct {
	armed  bool
	target Target
	mode   Mode
	n      int // the call that fails, from 1
	seen   int
	fired  bool
	undo   []undo
}

// undo is what an unsynced change replaced.
type undo struct {
	ino  uint64
	size int64 // of the file before
	off  int64 // -1: the size alone
	data []byte
}

// Arm makes the nth call on the target from now on fail.
func (f *FS) Arm(target Target, mode Mode, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault{armed: true, target: target, mode: mode, n: n}
}

// Disarm ends it and says how many calls on the target there were and whether
// one of them failed.
func (f *FS) Disarm() (seen int, fired bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen, fired = f.fault.seen, f.fault.fired
	f.fault = fault{}
	return seen, fired
}

// fails says whether a call on the target fails, and counts it.
func (f *FS) fails(target Target) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := &f.fault
	if !x.armed {
		return 0
	}
	if x.fired {
		switch {
		case x.mode == Dead:
			return syscall.EIO
		case x.mode == Full && (target == Writes || target == Truncates):
			return syscall.ENOSPC
		}
	}
	if target != x.target {
		return 0
	}
	x.seen++
	if x.seen != x.n {
		return 0
	}
	x.fired = true
	if x.mode == Full {
		return syscall.ENOSPC
	}
	return syscall.EIO
}

// failsWrite is fails for a write of n bytes, with how many of them are to be
// written all the same.
func (f *FS) failsWrite(n int) (syscall.Errno, int) {
	f.mu.Lock()
	before := f.fault.fired
	f.mu.Unlock()
	errno := f.fails(Writes)
	switch {
	case errno == 0:
		return 0, n
	case before:
		return errno, 0
	case errno == syscall.ENOSPC && n > 1:
		return 0, n / 2 // a short write is no error; the next one is
	}
	return errno, n / 2
}

// remember keeps what a change is about to replace, for as long as faults are
// armed.
func (f *FS) remember(ino uint64, off int64, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.fault.armed {
		return
	}
	path, info := f.find(ino)
	if path == "" {
		return
	}
	u := undo{ino: ino, size: info.Size(), off: off, data: make([]byte, n)}
	if n > 0 {
		file, err := os.Open(path)
		if err != nil {
			return
		}
		defer file.Close()
		m, _ := file.ReadAt(u.data, off) // what lies beyond the end goes with the size
		u.data = u.data[:m]
	}
	f.fault.undo = append(f.fault.undo, u)
}

// forget drops what is remembered of a file, or brings it back first.
func (f *FS) forget(ino uint64, restore bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var keep []undo
	path := ""
	if restore {
		path, _ = f.find(ino)
	}
	for i := len(f.fault.undo) - 1; i >= 0; i-- {
		u := f.fault.undo[i]
		if u.ino != ino {
			keep = append([]undo{u}, keep...)
			continue
		}
		if path == "" {
			continue
		}
		if file, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			_, _ = file.WriteAt(u.data, max(u.off, 0)) // the size of a file that is gone is of no interest
			_ = file.Truncate(u.size)
			_ = file.Close()
		}
	}
	f.fault.undo = keep
}

// find is where the backing directory has a file. The caller holds f.mu.
func (f *FS) find(ino uint64) (string, os.FileInfo) {
	var path string
	var info os.FileInfo
	_ = filepath.WalkDir(f.dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		i, err := d.Info()
		if st, ok := i.Sys().(*syscall.Stat_t); err == nil && ok && st.Ino == ino {
			path, info = p, i
			return filepath.SkipAll
		}
		return nil
	})
	return path, info
}
