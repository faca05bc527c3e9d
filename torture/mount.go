package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/anndb/anndb/torture/internal/faultfs"
)

// mounted is a fault file system: what is in dir is seen at at.
type mounted struct {
	*faultfs.FS
	dir, at string
}

// mountFaults mounts one, or says why that cannot be had.
func mountFaults(e *env) (*mounted, error) {
	dir, err := e.sub("behind")
	if err != nil {
		return nil, err
	}
	at, err := e.sub("mount")
	if err != nil {
		return nil, err
	}
	f, err := faultfs.Mount(dir, at)
	if err != nil {
		return nil, skipped("no FUSE mount: %v", err)
	}
	return &mounted{f, dir, at}, nil
}

// end unmounts; a child that has just ended may take a moment to let go.
func (m *mounted) end() (err error) {
	for range 100 {
		if err = m.Unmount(); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("unmount %s: %w", m.at, err)
}

// empty removes all files of a directory.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
