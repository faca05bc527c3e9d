// Package segment makes the segments of indexes: it builds indexes, keeps them up to date, and rebuilds
// damaged ones. Which rows become a segment, it decides; what is learned from them, their kind knows.
package segment

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/txn"
)

// ErrOvertaken is returned if an index was built or dropped by the program while it was rebuilt or
// maintained, so that the result was not published.
var ErrOvertaken = errors.New("db: the index was replaced during maintenance")

// Indexer makes the indexes of one file. Its methods are safe for concurrent use.
type Indexer struct {
	txn   *txn.Manager
	turn  chan struct{} // held by the running maintenance
	steps atomic.Uint64 // number of completed steps of maintenance
	// unmaintained has the reason why an index is not maintained, by its object.
	unmaintained sync.Map
}

// New returns an indexer of a file.
func New(m *txn.Manager) *Indexer { return &Indexer{txn: m, turn: make(chan struct{}, 1)} }

// Steps returns the number of completed steps of maintenance.
func (ix *Indexer) Steps() uint64 { return ix.steps.Load() }

// Working reports whether Maintain is running.
func (ix *Indexer) Working() bool { return len(ix.turn) > 0 }

// Unmaintained returns the reason why the index with the object is not maintained, empty if
// there is none.
func (ix *Indexer) Unmaintained(object uint64) string {
	why, _ := ix.unmaintained.Load(object)
	text, _ := why.(string)
	return text
}

// kindOf returns the kind of index with a name, nil if there is none.
func (ix *Indexer) kindOf(name string) kind.Kind { return ix.txn.File().Kinds(name) }

// Lacking reports whether no index of a collection finds rows by features, or by vectors, and the program has
// not dropped one that did.
func Lacking(c *layout.Collection, features bool) bool {
	return !c.Unindexed && (features && c.Sparse || !features && c.Dim > 0) && c.DefaultIndex(features) == "" &&
		c.Index(c.AutoName(features)) == nil
}
