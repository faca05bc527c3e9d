package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/rows"
)

// Get returns a copy of the live row with the key.
//
// Errors: ErrNotFound, ErrInvalid.
func (c Collection) Get(key []byte) (r Row, err error) {
	err = c.read(func(st *collState) (err error) {
		r, err = st.get(key)
		return err
	})
	return r, err
}

// Has reports whether a live row has the key.
//
// Errors: ErrNotFound, ErrInvalid.
func (c Collection) Has(key []byte) (exists bool, err error) {
	err = c.read(func(st *collState) (err error) {
		_, exists, err = st.find(key)
		return err
	})
	return exists, err
}

// GetRow returns a copy of the live row with the number.
//
// Errors: ErrNotFound.
func (c Collection) GetRow(row uint32) (r Row, err error) {
	err = c.read(func(st *collState) (err error) {
		r, err = st.row(row)
		return err
	})
	return r, err
}

// get copies the live row with the key.
func (st *collState) get(key []byte) (Row, error) {
	row, exists, err := st.find(key)
	if err != nil {
		return Row{}, err
	}
	if !exists {
		return Row{}, notFound(st.c.Name, key)
	}
	r, err := st.row(row)
	if err == nil && !bytes.Equal(r.Key, key) {
		return Row{}, corruptf(st.c.Name, "key %q points to row %d of key %q", key, r.Row, r.Key)
	}
	return r, err
}

// find returns the number of the row with the key, if there is one.
func (st *collState) find(key []byte) (row uint32, exists bool, err error) {
	if err := validKey(key); err != nil {
		return 0, false, err
	}
	if err := st.g.store.verifyPages(partKeys); err != nil {
		return 0, false, err
	}
	k := keyOf(st.c.ID, key)
	var v []byte
	st.g.locked(func() { v = st.g.tx.Bucket(bucketKeys).Get(k) })
	if v == nil {
		return 0, false, nil
	}
	n, ok := entryNumber(string(bucketKeys), k, v)
	if !ok || n >= uint64(st.c.Rows) {
		return 0, false, corruptf(st.c.Name, "key %q points to no row", key)
	}
	return uint32(n), true, nil
}

// row copies one live row out of the map.
func (st *collState) row(row uint32) (Row, error) {
	if err := st.Load(context.Background()); err != nil {
		return Row{}, err
	}
	if row >= st.c.Rows || st.Deleted(row) {
		return Row{}, fmt.Errorf("%w: row %d of collection %q", fail.NoRow, row, st.c.Name)
	}
	key, err := st.Key(row)
	if err != nil {
		return Row{}, err
	}
	var run *coldRows
	labels, payload, err := st.cold(row, &run)
	if err != nil {
		return Row{}, err
	}
	r := Row{Key: slices.Clone(key), Row: row, Labels: labels, Payload: payload}
	return r, st.copyVector(&r)
}

// cold reads the present labels and payload of a row, and keeps the decoded run of labels and
// payloads for the following rows. Everything that reads labels or payloads of stored rows reads
// them here, except for Salvage.
func (st *collState) cold(row uint32, run **coldRows) ([]string, []byte, error) {
	x, err := st.change(row)
	switch {
	case err != nil:
		return nil, nil, err
	case x != nil:
		return x.labels, x.payload, nil
	case row >= st.c.sealed():
		return st.tailCold(row)
	}
	if !(*run).holds(row) {
		if *run, err = st.coldRun(row); err != nil {
			return nil, nil, err
		}
	}
	return (*run).at(row)
}

// tailCold reads the labels and the payload that a tail row was written with.
func (st *collState) tailCold(row uint32) ([]string, []byte, error) {
	key := codec.Key(st.c.ID, codec.KindTail, row)
	var v []byte
	st.g.locked(func() { v = st.g.tx.Bucket(bucketTail).Get(key[:]) })
	if v == nil {
		return nil, nil, blockError(st.c.Name, st.c.ID, codec.KindTail, row, errors.New("row is missing"))
	}
	r, err := readTail(st.c, key[:], v)
	return r.Labels, r.Payload, err
}

// coldRows is a decoded run of labels and payloads.
type coldRows struct {
	st    *collState
	first uint32
	table codec.Strings
}

func (r *coldRows) holds(row uint32) bool {
	return r != nil && row >= r.first && row-r.first < uint32(r.table.Len())
}

// at returns the labels of one row and a copy of its payload.
func (r *coldRows) at(row uint32) ([]string, []byte, error) {
	labels, payload, err := rows.DecodeCold(r.table.At(int(row - r.first)))
	if err != nil {
		return nil, nil, blockError(r.st.c.Name, r.st.c.ID, codec.KindCold, r.first, fail.Wrapf(err, "row %d", row))
	}
	return labels, append([]byte(nil), payload...), nil
}

// coldRun finds and decodes the run that holds a sealed row: the last run that begins at or
// before it.
func (st *collState) coldRun(row uint32) (*coldRows, error) {
	key := codec.Key(st.c.ID, codec.KindCold, row)
	var k, v []byte
	st.g.locked(func() {
		cur := st.g.tx.Bucket(bucketBlocks).Cursor()
		if k, v = cur.Seek(key[:]); k == nil {
			k, v = cur.Last()
		} else if !bytes.Equal(k, key[:]) {
			k, v = cur.Prev()
		}
	})
	if len(k) != codec.KeySize || string(k[:12]) != string(key[:12]) {
		return nil, blockError(st.c.Name, st.c.ID, codec.KindCold, row, errors.New("block is missing"))
	}
	return st.decodeRun(row, k, v)
}

func (st *collState) decodeRun(row uint32, k, v []byte) (*coldRows, error) {
	data, err := decodeBlock(st.c.Name, k, v, true)
	if err != nil {
		return nil, err
	}
	_, _, first := codec.ParseKey(k)
	t, err := codec.NewStrings(data)
	if err != nil {
		return nil, blockError(st.c.Name, st.c.ID, codec.KindCold, first, err)
	}
	run := &coldRows{st, first, t}
	if !run.holds(row) {
		return nil, blockError(st.c.Name, st.c.ID, codec.KindCold, first,
			fmt.Errorf("block of %d rows does not hold row %d", t.Len(), row))
	}
	return run, nil
}

// Rows iterates over copies of the live rows, of one state, in the order of their numbers. The
// iteration ends after an error.
func (c Collection) Rows() iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		s, err := c.hold()
		if err != nil {
			yield(Row{}, err)
			return
		}
		defer c.letGo(s)
		st, err := s.collection(c.name)
		if err != nil {
			yield(Row{}, err)
			return
		}
		var run *coldRows
		for row := range st.c.Rows {
			r, ok, err := s.nextRow(st, row, &run)
			if err != nil {
				yield(Row{}, err)
				return
			}
			if ok && !yield(r, nil) {
				return
			}
		}
	}
}

// nextRow copies a row unless it is deleted, and keeps the decoded run of labels and payloads
// for the following rows.
func (s *Snapshot) nextRow(st *collState, row uint32, run **coldRows) (r Row, ok bool, err error) {
	defer guard(s.gen.store, setFaults(), &err)
	if s.released.Load() {
		return r, false, fmt.Errorf("%w: snapshot used after Release", ErrClosed)
	}
	if err := st.Load(context.Background()); err != nil || st.Deleted(row) {
		return r, false, err
	}
	key, err := st.Key(row)
	if err != nil {
		return r, false, err
	}
	r = Row{Key: slices.Clone(key), Row: row}
	if err := st.copyVector(&r); err != nil {
		return r, false, err
	}
	r.Labels, r.Payload, err = st.cold(row, run)
	return r, err == nil, err
}

// KeyRange selects keys. The zero value selects all of them.
type KeyRange struct {
	// Prefix is the prefix of the selected keys.
	Prefix []byte
	// From is the least key to select. It need not exist.
	From []byte
}

// Keys iterates over copies of the keys of the live rows in bytewise order: of those in a
// range, or of all if it is nil. The iteration ends after an error.
func (c Collection) Keys(in *KeyRange) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		s, err := c.hold()
		if err != nil {
			yield(nil, err)
			return
		}
		defer c.letGo(s)
		st, err := s.collection(c.name)
		if err != nil {
			yield(nil, err)
			return
		}
		var prefix, from []byte
		if in != nil {
			prefix, from = in.Prefix, in.From
		}
		if bytes.Compare(from, prefix) < 0 {
			from = prefix
		}
		prefix = keyOf(st.c.ID, prefix)
		var page [][]byte
		for next := keyOf(st.c.ID, from); next != nil; {
			if page, next, err = s.keyPage(prefix, next, page[:0]); err != nil {
				yield(nil, err)
				return
			}
			for _, k := range page {
				if !yield(k, nil) {
					return
				}
			}
		}
	}
}

// keyPage copies the next keys with a prefix and returns the key to continue with, nil at the
// end. Keys are copied in pages so that no cursor is held while the caller works.
func (s *Snapshot) keyPage(
	prefix, from []byte, page [][]byte,
) (_ [][]byte, next []byte, err error) {
	defer guard(s.gen.store, setFaults(), &err)
	if s.released.Load() {
		return nil, nil, fmt.Errorf("%w: snapshot used after Release", ErrClosed)
	}
	if err := s.gen.store.verifyPages(partKeys); err != nil {
		return nil, nil, err
	}
	s.gen.state.Lock()
	defer s.gen.state.Unlock()
	c := s.gen.tx.Bucket(bucketKeys).Cursor()
	for k, _ := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		if len(page) == 1024 {
			return page, slices.Clone(k), nil
		}
		page = append(page, slices.Clone(k[8:]))
	}
	return page, nil, nil
}

// Labels lists the labels of a collection with the number of live rows that have each, in
// bytewise order. Labels without a live row are left out.
//
// Errors: ErrNotFound.
func (c Collection) Labels() (out []LabelCount, err error) {
	err = c.read(func(st *collState) (err error) {
		out, err = st.countLabels()
		return err
	})
	return out, err
}

func (st *collState) countLabels() (out []LabelCount, err error) {
	if err := st.Load(context.Background()); err != nil {
		return nil, err
	}
	if err := st.g.store.verifyPages(partLabels | partSets); err != nil {
		return nil, err
	}
	st.g.state.Lock()
	defer st.g.state.Unlock()
	prefix := keyOf(st.c.ID, nil)
	c := st.g.tx.Bucket(bucketLabels).Cursor()
	for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		label := string(k[8:])
		object, err := labelObject(st.c.Name, k, v)
		if err != nil {
			return nil, err
		}
		rows, err := readSet(st.g.tx, st.c.Name, object, codec.KindLabelRows, st.c.Rows)
		if err != nil {
			return nil, err
		}
		if deletedRows := st.DeletedSet(); deletedRows != nil {
			rows.AndNot(deletedRows)
		}
		if n := int(rows.GetCardinality()); n > 0 {
			out = append(out, LabelCount{label, n})
		}
	}
	return out, nil
}

// labelObject decodes an entry of the label dictionary.
func labelObject(coll string, key, v []byte) (uint64, error) {
	object, ok := entryNumber(string(bucketLabels), key, v)
	if !ok {
		return 0, corruptf(coll, "label %q: checksum of its entry does not match", key[8:])
	}
	return object, nil
}

// LabelReader implements kind.Source.
func (st *collState) LabelReader() func(row uint32) ([]string, error) {
	var run *coldRows
	return func(row uint32) ([]string, error) {
		names, _, err := st.cold(row, &run)
		return names, err
	}
}
