// Package crash rebuilds what a disk may hold after the power went, from a
// record of changes and barriers.
//
// What a barrier (fsync of the file, or of the directory for names) covers is
// there. Of the rest, any part may be: whole writes, some sectors of a write,
// changes of size and of names, in any order (the model of ALICE, Pillai et
// al. 2014, without the order that journals keep).
package crash

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/anndb/anndb/torture/internal/faultfs"
)

// pageSize is the unit in which files are kept; pages of zeros are not.
const pageSize = 4096

// Disk is the content of a directory without subdirectories.
type Disk struct {
	files map[int]*file
	names map[string]int
}

type file struct {
	size  int64
	pages map[int64][]byte // never changed in place
}

// Read reads a directory; names are the numbers of its files.
func Read(dir string, names map[string]int) (*Disk, error) {
	d := &Disk{map[int]*file{}, maps.Clone(names)}
	for name, id := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		f := &file{pages: map[int64][]byte{}}
		f.write(0, data)
		f.size = int64(len(data))
		d.files[id] = f
	}
	return d, nil
}

var zeros [pageSize]byte

func (f *file) write(off int64, data []byte) {
	f.size = max(f.size, off+int64(len(data)))
	for len(data) > 0 {
		page, at := off/pageSize, off%pageSize
		n := min(int64(len(data)), pageSize-at)
		old := f.pages[page]
		fresh := make([]byte, pageSize)
		copy(fresh, old)
		copy(fresh[at:], data[:n])
		if bytes.Equal(fresh, zeros[:]) {
			delete(f.pages, page)
		} else {
			f.pages[page] = fresh
		}
		off, data = off+n, data[n:]
	}
}

func (f *file) truncate(size int64) {
	if size < f.size {
		for page := range f.pages {
			if page*pageSize >= size {
				delete(f.pages, page)
			}
		}
		if at := size % pageSize; at > 0 && f.pages[size/pageSize] != nil {
			kept := make([]byte, pageSize)
			copy(kept, f.pages[size/pageSize][:at])
			f.pages[size/pageSize] = kept
		}
	}
	f.size = size
}

// clone shares the pages.
func (d *Disk) clone() *Disk {
	out := &Disk{map[int]*file{}, maps.Clone(d.names)}
	for id, f := range d.files {
		out.files[id] = &file{f.size, maps.Clone(f.pages)}
	}
	return out
}

func (d *Disk) file(id int) *file {
	f := d.files[id]
	if f == nil {
		f = &file{pages: map[int64][]byte{}}
		d.files[id] = f
	}
	return f
}

// apply makes a change. Of a write only data, at off, is written.
func (d *Disk) apply(op faultfs.Op, off int64, data []byte) {
	switch op.Kind {
	case faultfs.Create, faultfs.Link:
		d.names[op.Name] = op.File
	case faultfs.Unlink:
		delete(d.names, op.Name)
	case faultfs.Rename:
		delete(d.names, op.Name)
		d.names[op.To] = op.File
	case faultfs.Truncate:
		d.file(op.File).truncate(op.Off)
	case faultfs.Write:
		d.file(op.File).write(off, data)
	}
}

func (d *Disk) whole(op faultfs.Op) { d.apply(op, op.Off, op.Data) }

// Write makes the directory, which must be empty, hold the disk's content.
func (d *Disk) Write(dir string) error {
	for name, id := range d.names {
		if err := d.file(id).save(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (f *file) save(path string) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.Truncate(f.size); err != nil {
		return err
	}
	for page, data := range f.pages {
		n := min(pageSize, f.size-page*pageSize)
		if _, err := out.WriteAt(data[:n], page*pageSize); err != nil {
			return err
		}
	}
	return nil
}

// State is what a disk may hold.
type State struct {
	*Disk
	// Ops is how many changes had been asked for when the power went.
	Ops int
	// What says how the state was made, for the report of a failure.
	What string
}

// Prefixes are the states in which all changes up to a point are there, in
// their order, and nothing else: one after every change, and of each write one
// in which its first sectors are there, cut at a random sector of each size.
func Prefixes(base *Disk, ops []faultfs.Op, sectors []int, rng *rand.Rand, yield func(State) error) error {
	d := base.clone()
	if err := yield(State{d.clone(), 0, "nothing"}); err != nil {
		return err
	}
	for i, op := range ops {
		if op.Kind == faultfs.Sync || op.Kind == faultfs.SyncDir || op.Kind == faultfs.Mark {
			continue // the state is the one before
		}
		if op.Kind == faultfs.Write {
			for _, sector := range sectors {
				n := len(op.Data) / sector
				if n < 2 {
					continue
				}
				torn := d.clone()
				cut := (1 + rng.IntN(n-1)) * sector
				torn.apply(op, op.Off, op.Data[:cut])
				s := State{torn, i + 1, fmt.Sprintf("%d changes and %d bytes of the next", i, cut)}
				if err := yield(s); err != nil {
					return err
				}
			}
		}
		d.whole(op)
		if err := yield(State{d.clone(), i + 1, fmt.Sprintf("%d changes", i+1)}); err != nil {
			return err
		}
	}
	return nil
}

// moment draws when the power goes: as often at any change as right after a
// mark, when what was acknowledged last is most at risk, and at the end.
func moment(ops []faultfs.Op, rng *rand.Rand) int {
	switch rng.IntN(3) {
	case 0:
		return len(ops)
	case 1:
		var marks []int
		for i, op := range ops {
			if op.Kind == faultfs.Mark {
				marks = append(marks, i+1)
			}
		}
		if len(marks) > 0 {
			return marks[rng.IntN(len(marks))]
		}
	}
	return 1 + rng.IntN(len(ops))
}

// Subset is a state in which the power went at a random moment, and a random
// part of what no barrier covered then is there, torn at the sector size.
func Subset(base *Disk, ops []faultfs.Op, sector int, rng *rand.Rand) State {
	at := moment(ops, rng)
	keep := []float64{0.1, 0.5, 0.9}[rng.IntN(3)]
	d := base.clone()
	durable := covered(ops[:at])
	pending, kept, torn := 0, 0, 0
	for i, op := range ops[:at] {
		switch {
		case op.Kind == faultfs.Mark || op.Kind == faultfs.Sync || op.Kind == faultfs.SyncDir:
		case durable[i]:
			d.whole(op)
		default:
			pending++
			whole := rng.Float64() < keep
			if op.Kind == faultfs.Write && len(op.Data) > sector && rng.IntN(3) == 0 {
				torn++
				for off := 0; off < len(op.Data); off += sector {
					if rng.IntN(2) == 0 {
						d.apply(op, op.Off+int64(off), op.Data[off:min(off+sector, len(op.Data))])
					}
				}
			} else if whole {
				kept++
				d.whole(op)
			}
		}
	}
	return State{d, at, fmt.Sprintf("power cut after %d changes, of %d unsynced ones %d kept and %d torn at %d bytes", at, pending, kept, torn, sector)}
}

// covered says which changes a barrier covers.
func covered(ops []faultfs.Op) []bool {
	out := make([]bool, len(ops))
	synced := map[int]bool{}
	names := false
	for i := len(ops) - 1; i >= 0; i-- {
		switch op := ops[i]; op.Kind {
		case faultfs.Sync:
			synced[op.File] = true
		case faultfs.SyncDir:
			names = true
		case faultfs.Write, faultfs.Truncate:
			out[i] = synced[op.File]
		default:
			out[i] = names
		}
	}
	return out
}
