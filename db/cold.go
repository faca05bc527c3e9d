package db

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/rows"
)

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

// LabelReader implements kind.Source.
func (st *collState) LabelReader() func(row uint32) ([]string, error) {
	var run *coldRows
	return func(row uint32) ([]string, error) {
		names, _, err := st.cold(row, &run)
		return names, err
	}
}
