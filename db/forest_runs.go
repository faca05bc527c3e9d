package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/anndb/anndb/codec"
)

// blockRun is the blocks [From, To) of a section of an object. If both are zero, it is all
// blocks of the section.
type blockRun struct {
	Object   uint64
	From, To uint32
}

func (r blockRun) whole() bool { return r.From == 0 && r.To == 0 }

// maxRuns bounds the blocks that a run may claim before any of them is read.
const maxRuns = 1 << 24

// validRuns reports whether every block occurs at most once in a section, so that there are no
// more runs than blocks, and whether a run of all blocks is the only run.
func validRuns(all map[codec.Kind][]blockRun) bool {
	for _, runs := range all {
		sorted := slices.Clone(runs)
		slices.SortFunc(sorted, func(a, b blockRun) int {
			return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.From, b.From))
		})
		for i, r := range sorted {
			switch {
			case r.whole() && len(runs) > 1, !r.whole() && r.From >= r.To, r.To > maxRuns:
				return false
			case i > 0 && sorted[i-1].Object == r.Object && sorted[i-1].To > r.From:
				return false
			}
		}
	}
	return true
}

// firstObject returns the object that holds the first block of a section.
func (f *forestManifest) firstObject(own uint64, kind codec.Kind) uint64 {
	if runs := f.Runs[kind]; len(runs) > 0 {
		return runs[0].Object
	}
	return own
}

// run reads the payloads of a run of blocks.
func (g *generation) run(ctx context.Context, coll string, r blockRun,
	kind codec.Kind) ([][]byte, error) {
	if err := g.store.sound(soundBlocks); err != nil {
		return nil, err
	}
	vals := make([]value, 0, 16)
	var err error
	read := func() {
		from := codec.Key(r.Object, kind, r.From)
		c := g.tx.Bucket(bucketBlocks).Cursor()
		k, v := c.Seek(from[:])
		for at := r.From; at < r.To; at++ {
			want := codec.Key(r.Object, kind, at)
			if string(k) != string(want[:]) {
				err = blockError(coll, r.Object, kind, at, errors.New("block is missing"))
				return
			}
			b, e := codec.Parse(v)
			if e == nil && b.Kind != kind {
				e = fmt.Errorf("block is of kind %v", b.Kind)
			}
			if e == nil && b.Flags != 0 {
				e = errors.New("block is compressed")
			}
			if e != nil {
				err = blockError(coll, r.Object, kind, at, e)
				return
			}
			vals = append(vals, value{key: want, block: b, payload: b.Payload})
			k, v = c.Next()
		}
	}
	g.locked(read)
	if err == nil {
		err = g.verify(ctx, coll, r.Object, kind, vals)
	}
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, v := range vals {
		out = append(out, v.payload)
	}
	return out, nil
}

// blocks lists the locations of the n blocks of a section, one run per block.
func (f *forestManifest) blocks(own uint64, kind codec.Kind, n int) []blockRun {
	runs, ok := f.Runs[kind]
	if !ok {
		runs = []blockRun{{Object: own}}
	}
	var out []blockRun
	for _, r := range runs {
		if r.whole() {
			r.To = uint32(n - len(out))
		}
		for at := r.From; at < r.To; at++ {
			out = append(out, blockRun{r.Object, at, at + 1})
		}
	}
	return out
}

// joined merges adjacent blocks into runs.
func joined(blocks []blockRun) []blockRun {
	var out []blockRun
	for _, b := range blocks {
		if last := len(out) - 1; last >= 0 && out[last].Object == b.Object && out[last].To == b.From {
			out[last].To = b.To
			continue
		}
		out = append(out, b)
	}
	return out
}
