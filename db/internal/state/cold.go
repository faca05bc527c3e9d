package state

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
)

// Cold reads the present labels, attributes and payload of a row, and keeps the decoded run of them
// for the following rows. Everything that reads those of stored rows reads them here, except for
// Salvage.
func (st *Collection) Cold(row uint32, run **ColdRun) (rows.Cold, error) {
	x, err := st.change(row)
	switch {
	case err != nil:
		return rows.Cold{}, err
	case x != nil:
		return x.Cold, nil
	case row >= st.Entry.Sealed():
		return st.tailCold(row)
	}
	if !(*run).holds(row) {
		if *run, err = st.coldRun(row); err != nil {
			return rows.Cold{}, err
		}
	}
	return (*run).at(row)
}

// tailCold reads what a tail row was written with.
func (st *Collection) tailCold(row uint32) (rows.Cold, error) {
	key := codec.Key(st.Entry.ID, codec.KindTail, row)
	var v []byte
	st.Gen.Locked(func() { v = st.Gen.Tx.Bucket(layout.BucketTail).Get(key[:]) })
	r, err := layout.ReadTail(st.Entry, key[:], v)
	return r.Cold, err
}

// ColdRun is a decoded run of labels, attributes and payloads.
type ColdRun struct {
	st    *Collection
	first uint32
	table codec.Strings
}

func (r *ColdRun) holds(row uint32) bool {
	return r != nil && row >= r.first && row-r.first < uint32(r.table.Len())
}

// at returns a copy of what the run holds of a row.
func (r *ColdRun) at(row uint32) (rows.Cold, error) {
	c, err := rows.DecodeCold(r.table.At(int(row - r.first)))
	if err != nil {
		return c, r.st.damaged(codec.KindCold, r.first, fail.Wrapf(err, "row %d", row))
	}
	c.Payload = append([]byte(nil), c.Payload...)
	return c, nil
}

// coldRun finds and decodes the run that holds a sealed row: the last run that begins at or
// before it.
func (st *Collection) coldRun(row uint32) (*ColdRun, error) {
	key := codec.Key(st.Entry.ID, codec.KindCold, row)
	var k, v []byte
	st.Gen.Locked(func() {
		cur := st.Gen.Tx.Bucket(layout.BucketBlocks).Cursor()
		if k, v = cur.Seek(key[:]); k == nil {
			k, v = cur.Last()
		} else if !bytes.Equal(k, key[:]) {
			k, v = cur.Prev()
		}
	})
	if len(k) != codec.KeySize || string(k[:12]) != string(key[:12]) {
		return nil, st.damaged(codec.KindCold, row, errors.New("block is missing"))
	}
	return st.decodeRun(row, k, v)
}

func (st *Collection) decodeRun(row uint32, k, v []byte) (*ColdRun, error) {
	data, err := layout.DecodeBlock(st.Entry.Name, k, v, true)
	if err != nil {
		return nil, err
	}
	_, _, first := codec.ParseKey(k)
	t, err := codec.NewLengths(data)
	if err != nil {
		return nil, st.damaged(codec.KindCold, first, err)
	}
	run := &ColdRun{st, first, t}
	if !run.holds(row) {
		return nil, st.damaged(codec.KindCold, first,
			fmt.Errorf("block of %d rows does not hold row %d", t.Len(), row))
	}
	return run, nil
}

// LabelReader implements kind.Source.
func (st *Collection) LabelReader() func(row uint32) ([]string, error) {
	var run *ColdRun
	return func(row uint32) ([]string, error) {
		c, err := st.Cold(row, &run)
		return c.Labels, err
	}
}
