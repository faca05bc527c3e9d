package salvage

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/layout"
)

// parts lists the parts of one collection that were found in the pages of a damaged file,
// by number. The catalog may claim billions of rows, so Salvage iterates over the parts found.
type parts struct {
	chunks  []foundChunk
	tail    []uint32          // rows that are in no chunk
	cold    []uint32          // first rows of runs of labels and payloads
	keys    map[uint32][]byte // by row
	badKeys bool              // there is a key with an invalid row number
}

// foundChunk is a block of vectors.
type foundChunk struct {
	number uint32
	bytes  int
}

// sortFound groups the blocks and keys found by collection.
func (w *File) sortFound() {
	w.found = map[uint64]*parts{}
	of := func(object uint64) *parts {
		f := w.found[object]
		if f == nil {
			f = &parts{keys: map[uint32][]byte{}}
			w.found[object] = f
		}
		return f
	}
	for k, p := range w.blocks {
		object, kind, n := codec.ParseKey(k[:])
		switch f := of(object); kind {
		case codec.KindRows, codec.KindSparse:
			f.chunks = append(f.chunks, foundChunk{n, p.n})
		case codec.KindTail:
			f.tail = append(f.tail, n)
		case codec.KindCold:
			f.cold = append(f.cold, n)
		}
	}
	for _, f := range w.found {
		slices.Sort(f.cold)
	}
	for k, v := range w.keys {
		if len(k) <= 8 {
			continue
		}
		f := of(binary.BigEndian.Uint64([]byte(k)))
		if row, ok := layout.EntryNumber(string(layout.BucketKeys), []byte(k), v); ok && row <= layout.MaxRows {
			f.keys[uint32(row)] = []byte(k[8:])
		} else {
			f.badKeys = true
		}
	}
}

// of returns the parts found of a collection.
func (w *File) of(object uint64) *parts {
	if w.found == nil {
		w.sortFound()
	}
	if f := w.found[object]; f != nil {
		return f
	}
	return &parts{}
}

// extent is the range of rows [from, to).
type extent struct{ from, to uint64 }

// extents returns the disjoint ranges of rows below n, in ascending order, for which a block or
// a key was found.
func (f *parts) extents(n uint32, shift uint) []extent {
	var all []extent
	for _, c := range f.chunks {
		if c.bytes>>shift > 0 { // otherwise there are fewer bytes than rows
			all = append(all, extent{uint64(c.number) << shift, (uint64(c.number) + 1) << shift})
		}
	}
	for _, row := range f.tail {
		all = append(all, extent{uint64(row), uint64(row) + 1})
	}
	for row := range f.keys {
		all = append(all, extent{uint64(row), uint64(row) + 1})
	}
	slices.SortFunc(all, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	var out []extent
	for _, e := range all {
		e.to = min(e.to, uint64(n))
		if last := len(out) - 1; last >= 0 && e.from <= out[last].to {
			out[last].to = max(out[last].to, e.to)
		} else if e.from < e.to {
			out = append(out, e)
		}
	}
	return out
}

// coldBefore returns the last run of labels and payloads that begins at or before row and not
// before first.
func (f *parts) coldBefore(row, first uint32) (run uint32, ok bool) {
	i, found := slices.BinarySearch(f.cold, row)
	if !found {
		i--
	}
	if i < 0 || f.cold[i] < first {
		return 0, false
	}
	return f.cold[i], true
}

// liveIn returns the number of rows in an extent that were not deleted, as far as is known.
// None of them has a key.
func (x *Rows) liveIn(e extent) int {
	switch {
	case e.from >= e.to:
		return 0
	case x.deletedRows != nil:
		newlyDeleted := roaring.New()
		newlyDeleted.AddRange(e.from, e.to)
		return int(e.to-e.from) - int(newlyDeleted.AndCardinality(x.deletedRows))
	case x.complete:
		return 0
	}
	return int(e.to - e.from)
}

// lose reports the rows of an extent of which nothing was found.
func (x *Rows) lose(e extent) {
	if n := x.liveIn(e); n > 0 {
		first := uint32(e.from)
		err := layout.BlockError(x.c.Name, x.c.ID, codec.KindRows, first>>x.c.Shift(), errGone)
		x.lost(LostRow{Collection: x.c.Name, Row: first, Rows: n, Err: err})
	}
}
