package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/where"
)

// Passing returns the rows that pass a filter and have not expired. Functions of keys are not called.
//
// Errors: fail.Filter; ErrCorrupt; the context's.
func (st *Collection) Passing(ctx context.Context, filter where.Expr) (where.Passing, error) {
	p, err := where.Evaluate(ctx, filter, filterSource{st})
	if err != nil {
		return p, st.filterError(err)
	}
	unexpired, err := st.Unexpired(ctx, time.Now())
	switch {
	case err != nil || unexpired == nil:
	case p.Set == nil:
		p.Set = unexpired
	default:
		p.Set = roaring.And(p.Set, unexpired)
	}
	return p, err
}

func (st *Collection) filterError(err error) error {
	return fail.Wrapf(err, "filter on %q", st.Entry.Name)
}

// Matching returns the live rows that pass a filter and have not expired; the caller may change the
// set. It calls the functions of the filter for the rows that nothing else excludes.
//
// Errors: as Passing.
func (st *Collection) Matching(ctx context.Context, filter where.Expr) (*roaring.Bitmap, error) {
	p, err := st.Passing(ctx, filter)
	if err != nil {
		return nil, err
	}
	return st.Decided(ctx, p)
}

// Decided returns the live rows that pass an evaluated filter, see Matching.
func (st *Collection) Decided(ctx context.Context, p where.Passing) (*roaring.Bitmap, error) {
	rows, err := filterSource{st}.Live(ctx)
	if err != nil {
		return nil, err
	}
	if p.Set != nil {
		rows.And(p.Set)
	}
	if p.Accept == nil {
		return rows, nil
	}
	out := roaring.New()
	for it := rows.Iterator(); it.HasNext(); {
		if err := ctx.Err(); err != nil {
			return nil, st.filterError(err)
		}
		row := it.Next()
		ok, err := st.Accepts(p, row)
		if err != nil {
			return nil, err
		}
		if ok {
			out.Add(row)
		}
	}
	return out, nil
}

// Accepts calls the functions of an evaluated filter for a row of its set.
func (st *Collection) Accepts(p where.Passing, row uint32) (bool, error) {
	if p.Accept == nil {
		return true, nil
	}
	key, err := st.Key(row)
	return err == nil && p.Accept(row, key), err
}

// filterSource answers what filters ask about a collection.
type filterSource struct{ st *Collection }

func (s filterSource) Live(ctx context.Context) (*roaring.Bitmap, error) {
	if err := s.st.Load(ctx); err != nil {
		return nil, err
	}
	return s.st.liveRows(), nil
}

func (s filterSource) Label(_ context.Context, label string) (*roaring.Bitmap, error) {
	set, err := s.st.filterSets.get(filterSet{label, setOfLabel}, func() (*roaring.Bitmap, error) {
		return s.st.LabelRows(label)
	})
	if err != nil {
		return nil, fail.Wrapf(err, "rows with label %q", label)
	}
	return set, nil
}

func (s filterSource) Attribute(
	_ context.Context, name string, in []attribute.Range,
) (*roaring.Bitmap, error) {
	which := filterSet{fmt.Sprintf("%q %x", name, in), setOfAttribute}
	set, err := s.st.filterSets.get(which, func() (*roaring.Bitmap, error) {
		return s.st.AttributeRows(name, in)
	})
	if err != nil {
		return nil, fail.Wrapf(err, "rows with attribute %q", name)
	}
	return set, nil
}

// Keys looks each key up.
func (s filterSource) Keys(ctx context.Context, keys []string) (*roaring.Bitmap, error) {
	rows := roaring.New()
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if layout.CheckKey([]byte(key)) != nil {
			continue // no row can have it
		}
		row, exists, err := s.st.Find([]byte(key))
		if err != nil {
			return nil, err
		}
		if exists {
			rows.Add(row)
		}
	}
	return rows, nil
}

func (s filterSource) KeyPrefix(ctx context.Context, prefix string) (*roaring.Bitmap, error) {
	return s.st.filterSets.get(filterSet{prefix, setOfPrefix}, func() (*roaring.Bitmap, error) {
		return s.st.prefixRows(ctx, []byte(prefix))
	})
}

func (s filterSource) Comparable(name string, with attribute.Type) error {
	return s.st.Comparable(name, with)
}

// Comparable returns an error if no row has ever had an attribute, or if its values are not of a type.
func (st *Collection) Comparable(name string, with attribute.Type) error {
	c := st.Entry
	r := c.Attribute(name)
	switch {
	case c.Live == 0 || r != nil && (with == attribute.NoType || with == r.Type):
		return nil
	case r != nil:
		return fmt.Errorf("attribute %q is a %s, not a %s", name, r.Type, with)
	}
	names := c.AttributeNames()
	have := "they have had none"
	if len(names) > 0 {
		have = "they have had " + strings.Join(names[:min(len(names), shownNames)], ", ")
	}
	if len(names) > shownNames {
		have += ", …"
	}
	return fmt.Errorf("no row has ever had an attribute %q: %s", name, have)
}

// shownNames is the number of attributes that an error lists.
const shownNames = 20

func (s filterSource) Numbered(r *where.Rows) error {
	st := s.st
	switch {
	case r.Numbering == any(st.Numbering):
		return nil
	case r.Collection != st.Entry.Name:
		return fmt.Errorf("they are rows of %q", r.Collection)
	}
	return errors.New("the rows have other numbers than in the snapshot that it was made from: " +
		"make one from the snapshot that is searched")
}

// prefixPage is the number of keys that are read while the generation is locked.
const prefixPage = 4096

// prefixRows returns the live rows whose key has a prefix, in time proportional to their number.
func (st *Collection) prefixRows(ctx context.Context, prefix []byte) (*roaring.Bitmap, error) {
	if err := st.Gen.File.VerifyPages(layout.PartKeys); err != nil {
		return nil, err
	}
	prefix = layout.KeyOf(st.Entry.ID, prefix)
	var rows []uint32
	for next := prefix; next != nil; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		if rows, next, err = st.prefixRun(prefix, next, rows); err != nil {
			return nil, err
		}
	}
	return roaring.BitmapOf(rows...), nil
}

// prefixRun appends the rows of the next keys with a prefix, and returns the key to continue with,
// nil at the end.
func (st *Collection) prefixRun(prefix, from []byte, rows []uint32) (_ []uint32, next []byte, err error) {
	st.Gen.state.Lock()
	defer st.Gen.state.Unlock()
	c := st.Gen.Tx.Bucket(layout.BucketKeys).Cursor()
	count := 0
	for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if count++; count > prefixPage {
			return rows, bytes.Clone(k), nil
		}
		n, ok := layout.EntryNumber(string(layout.BucketKeys), k, v)
		if !ok || n >= uint64(st.Entry.Rows) {
			return nil, nil, fail.Corruptf(st.Entry.Name, "key %q points to no row", k[8:])
		}
		rows = append(rows, uint32(n))
	}
	return rows, nil, nil
}

// filterSet names a set of rows that filters use.
type filterSet struct {
	text string
	kind setKind
}

// setKind is what the rows of a set have in common.
type setKind uint8

const (
	setOfLabel     setKind = iota // the label
	setOfPrefix                   // the prefix of their keys
	setOfAttribute                // an attribute in the same ranges
)

// filterSetsBytes is the largest size of the sets that a collection keeps for filters, per
// generation.
const filterSetsBytes = 16 << 20

// filterSets keeps sets of rows for later filters of one generation.
type filterSets struct {
	mu   sync.Mutex
	sets map[filterSet]*roaring.Bitmap
	size uint64
}

// get returns a set, and reads it if it is not kept. It may be nil.
func (f *filterSets) get(
	which filterSet, read func() (*roaring.Bitmap, error),
) (*roaring.Bitmap, error) {
	f.mu.Lock()
	set, ok := f.sets[which]
	f.mu.Unlock()
	if ok {
		return set, nil
	}
	set, err := read()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(which, set)
	return set, nil
}

// add keeps a set. When there is no room for it, it forgets all others.
func (f *filterSets) add(which filterSet, set *roaring.Bitmap) {
	size := uint64(len(which.text) + 128)
	if set != nil {
		size += set.GetSizeInBytes()
	}
	if size > filterSetsBytes {
		return
	}
	if f.sets == nil || f.size+size > filterSetsBytes {
		f.sets, f.size = map[filterSet]*roaring.Bitmap{}, 0
	}
	if _, ok := f.sets[which]; !ok {
		f.sets[which] = set
		f.size += size
	}
}
