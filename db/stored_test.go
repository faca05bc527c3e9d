package db

import (
	"context"
	"encoding/json"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/verified"
	"github.com/anndb/anndb/query/lcif"
)

// The numbers of stored arrays that tests look for, as codec/FORMAT.md has them.
const (
	arrayRowLength uint32 = 23 // of postings

	arrayLabelLabel      uint32 = 1 // of label-matrix
	arrayLabelNames      uint32 = 2
	arrayLabelDeleted    uint32 = 3
	arrayRelabelledRow   uint32 = 4
	arrayRelabelledLabel uint32 = 6

	arraySum             uint32 = 2 // of feature-labels
	arrayPower           uint32 = 5
	arrayFeatureWeight   uint32 = 7
	arrayPatchPtr        uint32 = 8
	arrayPatchPower      uint32 = 11
	arrayGraphPtr        uint32 = 14
	arrayGraphSimilarity uint32 = 16
)

// lcifStored has the fields of a label model's manifest that tests look at.
type lcifStored struct {
	Scale    *lcif.Scaling
	Base     uint64
	Segments []lcifSegment
}

type lcifSegment struct {
	Object uint64
	Dead   int
}

// lcifDetail returns the detail of a label model's manifest.
func lcifDetail(t rapid.TB, m *kind.Manifest) (d lcifStored) {
	t.Helper()
	must(t, json.Unmarshal(m.Detail, &d))
	return d
}

// emitted is a collection with one index in memory, as a step of maintenance has emitted it.
type emitted struct {
	kind.Source
	blocks map[codec.Kind][][]byte // payloads by number
}

// sink adds a block of the index.
func (e emitted) sink(key [codec.KeySize]byte, value []byte) error {
	_, section, n := codec.ParseKey(key[:])
	b, err := codec.Parse(value)
	if err != nil {
		return err
	}
	for len(e.blocks[section]) <= int(n) {
		e.blocks[section] = append(e.blocks[section], nil)
	}
	e.blocks[section][n] = b.Payload
	return nil
}

func (e emitted) Arrays(ctx context.Context, _ string, object uint64) *arrays.Reader {
	return arrays.NewReader(ctx, e, object)
}

func (e emitted) Blocks(_ context.Context, _ arrays.Run, section codec.Kind) ([][]byte, error) {
	return e.blocks[section], nil
}

// Damage returns an error that does not mean damage: what a step emits is valid.
func (e emitted) Damage(_ uint64, err error) error { return err }

func (e emitted) Once(_ verified.Key, _ int, check func() error) error { return check() }
