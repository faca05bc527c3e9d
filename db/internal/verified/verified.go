// Package verified records what has been verified of a file, so that it is verified once per
// process: blocks by their checksums, and arrays by their cross-references.
package verified

import (
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
)

// Role is the part of an object that was checked. Its values are the caller's.
type Role uint8

// Key identifies arrays whose cross-references were checked. Shape contains everything that the
// check used as well, so that arrays are checked again if they are read with other scalars.
type Key struct {
	Object uint64
	Role   Role
	Shape  string
}

// Checks records which arrays have been found valid. Blocks are immutable, so their
// cross-references are checked once per process. A check may depend on a bound that grows as
// rows and labels are added; what is valid for one bound is also valid for a larger one. Its
// methods are safe for concurrent use, and the zero value is empty.
type Checks struct {
	mu    sync.Mutex
	bound map[Key]int
}

// Once runs a check unless the arrays have passed it with this bound or a lower one.
func (c *Checks) Once(key Key, bound int, check func() error) error {
	c.mu.Lock()
	least, known := c.bound[key]
	c.mu.Unlock()
	if known && least <= bound {
		return nil
	}
	if err := check(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bound == nil {
		c.bound = map[Key]int{}
	}
	if least, known := c.bound[key]; !known || bound < least {
		c.bound[key] = bound
	}
	return nil
}

// Forget removes the records of an object.
func (c *Checks) Forget(object uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.bound {
		if k.Object == object {
			delete(c.bound, k)
		}
	}
}

// Blocks records which blocks have been verified: one bit per block, by object and section. Its
// methods are safe for concurrent use, and the zero value is empty.
type Blocks struct {
	m sync.Map // sectionKey → *Bits
}

type sectionKey struct {
	object uint64
	kind   codec.Kind
}

// Section returns the bits of the blocks of a section, by block number.
func (v *Blocks) Section(object uint64, kind codec.Kind) *Bits {
	k := sectionKey{object, kind}
	if b, ok := v.m.Load(k); ok {
		return b.(*Bits)
	}
	b, _ := v.m.LoadOrStore(k, &Bits{})
	return b.(*Bits)
}

// Forget removes all bits of an object.
func (v *Blocks) Forget(object uint64) {
	v.m.Range(func(k, _ any) bool {
		if k.(sectionKey).object == object {
			v.m.Delete(k)
		}
		return true
	})
}

// Bits is a growing set of bits that is safe for concurrent use.
type Bits struct {
	mu  sync.RWMutex
	set roaring.Bitmap
}

// Has reports whether a bit is set.
func (b *Bits) Has(i uint32) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.set.Contains(i)
}

// Set sets a bit.
func (b *Bits) Set(i uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set.Add(i)
}
