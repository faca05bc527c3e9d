package db

import "sync"

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
