package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/change"
	"github.com/anndb/anndb/internal/wire"
)

// resultWindow is for how many sequences the versions of changed rows are remembered.
const resultWindow = 4096

// refusals are the errors for which a message changes nothing. They depend only on the messages before it, so
// each replica refuses the same ones. Others are faults of the node, which tries again.
var refusals = []error{db.ErrInvalid, db.ErrNotFound, db.ErrExists, wire.ErrChanged}

func refusal(err error) bool {
	for _, r := range refusals {
		if errors.Is(err, r) {
			return true
		}
	}
	return false
}

// apply applies entries that follow the position of the file.
func (r *replica) apply(ctx context.Context, d *duty, entries []shardlog.Entry) error {
	for len(entries) > 0 {
		if e := &entries[0]; e.Err != nil && !e.Foreign {
			return fmt.Errorf("shard %s: %w", r.id, e.Err)
		}
		n := 0
		for n < len(entries) && (entries[n].Transaction != nil || entries[n].Foreign) {
			n++
		}
		b := &batch{r: r, o: r.open, d: d, entries: entries[:max(n, 1)], refused: map[int]error{}}
		if d.parent != nil {
			if err := b.askParent(ctx); err != nil {
				return err
			}
		}
		var err error
		if n > 0 {
			err = b.transactions(ctx)
		} else {
			err = b.structural(ctx)
		}
		if err != nil {
			return err
		}
		entries = entries[len(b.entries):]
	}
	return nil
}

// batch are consecutive entries that are applied in one transaction of the file: transactions, or a change of
// collections.
type batch struct {
	r       *replica
	o       *opened
	d       *duty
	entries []shardlog.Entry
	refused map[int]error // by number of the entry
	next    position
	results [][]string
	wakes   bool // indexes are to be built
}

// askParent waits until the parent has applied the entries of a part, and refuses what it has refused.
func (b *batch) askParent(ctx context.Context) error {
	parent := b.r.n.replica(b.d.parent.ID)
	if parent == nil {
		return fmt.Errorf("shard %s: its parent %s is not on this node", b.r.id, b.d.parent.ID)
	}
	last := b.entries[len(b.entries)-1].Sequence
	return parent.wait(ctx, func() (bool, error) {
		if parent.open == nil || !parent.open.at.of(b.d.parent) || parent.open.at.Sequence < last {
			return false, nil
		}
		for i, e := range b.entries {
			if err := parent.open.refused[e.Sequence]; err != nil {
				b.refused[i] = err
			}
		}
		return true, nil
	})
}

// advance sets the position behind the entries.
func (b *batch) advance() {
	last := &b.entries[len(b.entries)-1]
	b.next = b.o.at
	b.next.Sequence, b.next.Mark, b.next.Intent = last.Sequence, last.Mark, 0
	for i := range b.entries {
		if b.entries[i].Foreign {
			b.next.Foreign++
			b.r.logger.Error("a message of the log is skipped", "error", b.entries[i].Err)
		}
	}
}

// store writes the position and the refused entries.
func (b *batch) store(tx *db.Tx) error {
	for i, err := range b.refused {
		sequence := b.entries[i].Sequence
		if err := put(tx, string(refusedKey(sequence)), wire.NewError(err)); err != nil {
			return err
		}
	}
	for _, sequence := range b.forgotten() {
		if err := tx.Collection(hidden).Delete(refusedKey(sequence)); err != nil {
			return err
		}
	}
	return put(tx, keyPosition, b.next)
}

// forgotten returns the refused entries that need not be remembered any more, if there are other ones.
func (b *batch) forgotten() (old []uint64) {
	if len(b.refused) == 0 {
		return nil
	}
	for sequence := range b.o.refused {
		if sequence+refusedWindow < b.next.Sequence {
			old = append(old, sequence)
		}
	}
	return old
}

// done shows what has been committed.
func (b *batch) done() {
	forgotten := b.forgotten()
	b.r.change(func() {
		b.o.at, b.r.err = b.next, nil
		for _, sequence := range forgotten {
			delete(b.o.refused, sequence)
		}
		for i := range b.entries {
			sequence := b.entries[i].Sequence
			if err := b.refused[i]; err != nil {
				b.o.refused[sequence] = wire.NewError(err)
			}
			b.r.results[sequence] = b.results[i]
			delete(b.r.results, sequence-resultWindow)
		}
		b.r.last = max(b.r.last, b.next.Sequence)
	})
	if b.wakes || b.d.parent != nil { // a split waits for it
		b.r.n.tell()
	}
}

// errAgain: an entry has been found to be refused after it had changed something in the transaction.
var errAgain = errors.New("again")

// transactions applies entries that are all transactions, in one transaction of the file.
func (b *batch) transactions(ctx context.Context) error {
	infos := map[string]db.CollectionInfo{} // which no transaction changes
	parsed := make([]*change.Transaction, len(b.entries))
	for i := range b.entries {
		if b.refused[i] == nil && !b.entries[i].Foreign {
			t, err := b.parse(&b.entries[i], infos)
			switch {
			case err == nil:
				parsed[i] = t
			case refusal(err):
				b.refused[i] = err
			default:
				return err
			}
		}
	}
	for {
		err := b.o.file.Update(ctx, func(tx *db.Tx) error { return b.attempt(tx, parsed) })
		switch {
		case err == nil:
			b.done()
			return nil
		case errors.Is(err, errAgain):
			continue
		case !refusal(err):
			return err
		case len(b.entries) == 1:
			b.refused[0] = err
			continue
		}
		return b.apart(ctx, err)
	}
}

// apart applies the entries each in a transaction of its own: it is not known which one was refused.
func (b *batch) apart(ctx context.Context, cause error) error {
	b.r.logger.Debug("a batch is applied one by one", "error", cause)
	for i := range b.entries {
		one := &batch{r: b.r, o: b.o, d: b.d, entries: b.entries[i : i+1], refused: map[int]error{}}
		if err := b.refused[i]; err != nil {
			one.refused[0] = err
		}
		if err := one.transactions(ctx); err != nil {
			return err
		}
	}
	return nil
}

// attempt makes the changes of all entries that are not refused.
func (b *batch) attempt(tx *db.Tx, parsed []*change.Transaction) error {
	b.advance()
	b.results = make([][]string, len(b.entries))
	for i, t := range parsed {
		if t == nil || b.refused[i] != nil {
			continue
		}
		versions, err := t.Apply(tx)
		switch {
		case err == nil:
			b.results[i] = versions
		case errors.Is(err, wire.ErrChanged): // of a condition, before any change
			b.refused[i] = err
		case refusal(err):
			b.refused[i] = err
			return errAgain
		default:
			return err
		}
	}
	return b.store(tx)
}

// parse returns the transaction of an entry, or the error for which every replica refuses it.
func (b *batch) parse(e *shardlog.Entry, infos map[string]db.CollectionInfo) (*change.Transaction, error) {
	t, err := change.NewTransaction(e.Transaction, func(name string) (db.CollectionInfo, error) {
		if strings.HasPrefix(name, ".") {
			return db.CollectionInfo{}, fmt.Errorf("%w: collection %q", db.ErrNotFound, name)
		}
		info, ok := infos[name]
		if !ok {
			var err error
			if info, err = b.o.file.Collection(name).Info(); err != nil {
				return info, err
			}
			infos[name] = info
		}
		return info, nil
	})
	switch {
	case err != nil:
		return nil, err
	case t.Expires():
		return nil, fmt.Errorf("%w: rows of a cluster have no expiry, since the clocks of nodes differ",
			db.ErrInvalid)
	case b.d.parent != nil:
		t.Restrict(b.d.shard.Owns)
		t.SkipVersions()
		return &t, nil
	case !e.Versions:
		t.SkipVersions()
	}
	for key := range t.Keys() {
		if !b.d.shard.Owns(key) {
			return nil, fmt.Errorf("%w: key %.40q is in another shard than %s", db.ErrInvalid, key, b.d.shard.ID)
		}
	}
	return &t, nil
}

// structural applies an entry that changes collections or indexes. Such a change has a transaction of its
// own, before which the position says that it is intended: after a crash it is made again, or was made.
func (b *batch) structural(ctx context.Context) error {
	e := &b.entries[0]
	extra := func(*db.Tx) error { return nil }
	if b.refused[0] == nil {
		err := b.intend(ctx, e)
		if err == nil {
			extra, err = b.restructure(ctx, e)
		}
		if err != nil && !refusal(err) {
			return err
		}
		if err != nil {
			b.refused[0] = err
		}
	}
	b.results = make([][]string, 1)
	err := b.o.file.Update(ctx, func(tx *db.Tx) error {
		b.advance()
		if b.refused[0] == nil {
			if err := extra(tx); err != nil {
				return err
			}
		}
		return b.store(tx)
	})
	if err == nil {
		b.done()
	}
	return err
}

// intend returns the error for which an entry is refused, and otherwise stores that it will be applied.
func (b *batch) intend(ctx context.Context, e *shardlog.Entry) error {
	if b.o.at.Intent == e.Sequence {
		return nil
	}
	name := e.Drop
	switch {
	case e.Create != nil:
		name = e.Create.Name
	case e.Build != nil:
		name = e.Build.Collection
	}
	_, err := b.o.file.Collection(name).Info()
	switch {
	case name == "" || strings.HasPrefix(name, "."):
		return fmt.Errorf("%w: the name %q of a collection is empty or begins with a dot", db.ErrInvalid, name)
	case e.Create != nil && err == nil:
		return fmt.Errorf("%w: collection %q", db.ErrExists, name)
	case e.Create == nil && err != nil:
		return err
	}
	at := b.o.at
	at.Intent = e.Sequence
	err = b.o.file.Update(ctx, func(tx *db.Tx) error { return put(tx, keyPosition, at) })
	if err == nil {
		b.r.change(func() { b.o.at = at })
	}
	return err
}

// restructure makes the change of an entry, and returns what belongs into the transaction of its position.
// That it has been made already, before a crash, is no error.
func (b *batch) restructure(ctx context.Context, e *shardlog.Entry) (extra func(tx *db.Tx) error, err error) {
	file := b.o.file
	extra = func(*db.Tx) error { return nil }
	switch {
	case e.Create != nil:
		if _, err = file.Create(ctx, e.Create.Name, e.Create.Schema); errors.Is(err, db.ErrExists) {
			err = nil
		}
		return extra, err
	case e.Drop != "":
		if err = file.Drop(ctx, e.Drop); errors.Is(err, db.ErrNotFound) {
			err = nil
		}
		return func(tx *db.Tx) error { return b.forget(tx, e.Drop) }, err
	}
	key := keyIndex + indexKey(e.Build)
	if e.Build.Drop {
		has, err := file.Collection(hidden).Has([]byte(key))
		if err == nil && !has && e.Build.Index != "auto" {
			err = fmt.Errorf("%w: collection %q has no index %q", db.ErrNotFound, e.Build.Collection, e.Build.Index)
		}
		if err != nil {
			return nil, err
		}
	} else if _, err := e.Build.Get(); err != nil {
		return nil, err
	}
	b.wakes = true
	return func(tx *db.Tx) error { return put(tx, key, wanted{Sequence: e.Sequence, Build: *e.Build}) }, nil
}

// forget removes what is wanted of the indexes of a collection.
func (b *batch) forget(tx *db.Tx, collection string) error {
	for key, err := range b.o.file.Collection(hidden).Keys([]byte(keyIndex+prefix(collection)), nil) {
		if err == nil {
			err = tx.Collection(hidden).Delete(key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
