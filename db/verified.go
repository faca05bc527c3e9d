package db

import (
	"sync"
	"sync/atomic"

	"github.com/anndb/anndb/codec"
)

// checkRole is the part of an object that was checked.
type checkRole uint8

const (
	roleForest   checkRole = iota // nodes, leaves and directions
	roleOverlay                   // additions to leaves
	rolePostings                  // a segment of an inverted index
	roleLabelSets
	roleLabelPairs
	roleLabelHead
	roleLabelGraph
	roleTree
)

// checkKey identifies arrays whose cross-references were checked. shape contains everything
// that the check used from a manifest, so that arrays are checked again if they are read with
// other scalars.
type checkKey struct {
	object uint64
	role   checkRole
	shape  string
}

// checkedSet records which arrays of a store have been found valid. Blocks are immutable, so
// their cross-references are checked once per process. A check may depend on a bound that grows
// as rows and labels are added; what is valid for one bound is also valid for a larger one.
type checkedSet struct {
	mu    sync.Mutex
	bound map[checkKey]int
}

// once runs a check unless the arrays have passed it with this bound or a lower one.
func (c *checkedSet) once(key checkKey, bound int, check func() error) error {
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
		c.bound = map[checkKey]int{}
	}
	if least, known := c.bound[key]; !known || bound < least {
		c.bound[key] = bound
	}
	return nil
}

// forget removes the records of an object.
func (c *checkedSet) forget(object uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.bound {
		if k.object == object {
			delete(c.bound, k)
		}
	}
}

// verifiedSet records which blocks of a store have been verified: one bit per block, by object
// and section.
type verifiedSet struct {
	m sync.Map // sectionKey → *bitSet
}

type sectionKey struct {
	object uint64
	kind   codec.Kind
}

func (v *verifiedSet) section(object uint64, kind codec.Kind) *bitSet {
	k := sectionKey{object, kind}
	if b, ok := v.m.Load(k); ok {
		return b.(*bitSet)
	}
	b, _ := v.m.LoadOrStore(k, &bitSet{})
	return b.(*bitSet)
}

// forget removes all bits of an object.
func (v *verifiedSet) forget(object uint64) {
	v.m.Range(func(k, _ any) bool {
		if k.(sectionKey).object == object {
			v.m.Delete(k)
		}
		return true
	})
}

// bitSet is a growing set of bits that is safe for concurrent use. A read takes one or two
// loads. Bits are stored in pages that are allocated on demand, so that growing never moves
// them and a high number costs only its page.
type bitSet struct {
	mu    sync.Mutex
	pages atomic.Pointer[[]*bitPage]
}

type bitPage [64]atomic.Uint64 // 4,096 bits

func (b *bitSet) has(i uint32) bool {
	pages := b.pages.Load()
	if pages == nil || int(i>>12) >= len(*pages) || (*pages)[i>>12] == nil {
		return false
	}
	return (*pages)[i>>12][i>>6&63].Load()&(1<<(i&63)) != 0
}

func (b *bitSet) set(i uint32) {
	pages := b.pages.Load()
	if pages == nil || int(i>>12) >= len(*pages) || (*pages)[i>>12] == nil {
		b.mu.Lock()
		var grown []*bitPage
		if old := b.pages.Load(); old != nil {
			grown = append(grown, *old...)
		}
		for len(grown) <= int(i>>12) {
			grown = append(grown, nil)
		}
		if grown[i>>12] == nil {
			grown[i>>12] = new(bitPage)
		}
		b.pages.Store(&grown)
		b.mu.Unlock()
		pages = &grown
	}
	(*pages)[i>>12][i>>6&63].Or(1 << (i & 63))
}
