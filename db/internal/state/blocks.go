package state

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/verified"
	"github.com/anndb/anndb/internal/par"
)

// value is a stored block in the map.
type value struct {
	key     [codec.KeySize]byte
	block   codec.Block
	payload []byte
}

// number returns the block's number in its section.
func (v *value) number() uint32 { return binary.BigEndian.Uint32(v.key[codec.KeySize-4:]) }

// section parses all blocks of an object's section and verifies those not verified yet. The
// blocks must be numbered 0..n-1; a negative n allows any count. The payloads alias the map.
func (g *Generation) section(ctx context.Context, coll string, object uint64, kind codec.Kind,
	n int) ([]value, error) {
	if err := g.File.VerifyPages(layout.PartBlocks); err != nil {
		return nil, err
	}
	var vals []value
	var err error
	add := func(k, v []byte) error {
		_, _, chunk := codec.ParseKey(k)
		b, err := layout.ParseBlock(k, v, false)
		switch {
		case err != nil:
		case b.Flags != 0: // it is read in the map
			err = errors.New("block is compressed")
		case gaps(kind) && chunk < maxNumbered:
			// In these sections, a number identifies the content of a block, not its position.
			for len(vals) < int(chunk) {
				vals = append(vals, value{})
			}
		case int(chunk) != len(vals):
			err = fmt.Errorf("block %d is missing", len(vals))
		}
		if err != nil {
			return layout.BlockError(coll, object, kind, chunk, err)
		}
		vals = append(vals, value{key: [codec.KeySize]byte(k), block: b, payload: b.Payload})
		return nil
	}
	g.Locked(func() { err = layout.EachBlock(g.Tx.Bucket(layout.BucketBlocks), object, kind, add) })
	if err != nil {
		return nil, err
	}
	if n >= 0 && len(vals) != n {
		return nil, layout.BlockError(coll, object, kind, uint32(len(vals)),
			fmt.Errorf("%d blocks, want %d", len(vals), n))
	}
	return vals, g.verify(ctx, coll, object, kind, vals)
}

// gaps reports whether a section's block numbers may have gaps.
func gaps(kind codec.Kind) bool {
	switch kind {
	case codec.KindLeafDir, codec.KindDirections, codec.KindPostings, codec.KindLabelMatrix,
		codec.KindSimilarity, codec.KindBudget, codec.KindLabelTree:
		return true
	}
	return false
}

// maxNumbered bounds the block numbers of such sections.
const maxNumbered = 64

// verify checks the checksums of blocks, on all processors if there are many bytes, and records
// those that match. Blocks are immutable and object numbers are never reused, so a set bit
// stays true.
func (g *Generation) verify(ctx context.Context, coll string, object uint64, kind codec.Kind,
	vals []value) error {
	seen := g.File.verified.Section(object, kind)
	var todo []int
	bytes := 0
	for i := range vals {
		if vals[i].payload != nil && !seen.Has(vals[i].number()) {
			todo = append(todo, i)
			bytes += len(vals[i].payload)
		}
	}
	work, request := par.Work{N: len(todo), Workers: min(par.Workers(0), bytes>>20+1)}, g.File.Requests()
	err := par.Each(ctx, work, func(j int) (err error) {
		defer Guard(g.File, CatchFaults(), &err)
		v := &vals[todo[j]]
		if request != nil {
			request(v.payload)
		}
		if err := v.block.Verify(v.key[:]); err != nil {
			return layout.BlockError(coll, object, kind, v.number(), err)
		}
		seen.Set(v.number())
		return nil
	})
	if err != nil && err == ctx.Err() {
		return fmt.Errorf("db: load: %w", err)
	}
	return err
}

// payloads is section without the headers.
func (g *Generation) payloads(ctx context.Context, coll string, object uint64,
	kind codec.Kind) ([][]byte, error) {
	vals, err := g.section(ctx, coll, object, kind, -1)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(vals))
	for i := range vals {
		out[i] = vals[i].payload
	}
	return out, nil
}

// indexArrays is the source of the arrays of an index.
type indexArrays struct {
	st   *Collection
	name string // of the index
}

// Arrays returns a reader of an index's object.
func (st *Collection) Arrays(ctx context.Context, index string, object uint64) *arrays.Reader {
	return arrays.NewReader(ctx, indexArrays{st, index}, object)
}

// Blocks implements arrays.Source.
func (x indexArrays) Blocks(ctx context.Context, object uint64, kind codec.Kind) ([][]byte, error) {
	return x.st.Gen.payloads(ctx, x.st.Entry.Name, object, kind)
}

// Damage implements arrays.Source.
func (x indexArrays) Damage(object uint64, err error) error {
	return fail.Corrupt(fail.Damage{
		Collection: x.st.Entry.Name, Object: object, Offset: -1, Err: fmt.Errorf("index %q: %w", x.name, err),
	})
}

// Once implements arrays.Source.
func (x indexArrays) Once(key verified.Key, bound int, check func() error) error {
	return x.st.Gen.File.validated.Once(key, bound, check)
}
