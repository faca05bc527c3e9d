package postings

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// each calls f with the postings of the list, by ascending row.
func (l rowList) each(f func(row uint32, value float32)) {
	rank := 0
	for i := range l.set.containers() {
		c := l.set.container(i)
		base := c.base()
		if !c.isBitmap() {
			for _, low := range c.words {
				f(base+uint32(low), l.value[rank])
				rank++
			}
			continue
		}
		for w, word := range c.words {
			for ; word != 0; word &= word - 1 {
				f(base+uint32(16*w+bits.TrailingZeros16(word)), l.value[rank])
				rank++
			}
		}
	}
}

// setBytes are the words of a set as they are stored.
func setBytes(s rowSet) []byte {
	var data []byte
	for _, w := range s {
		data = append(data, byte(w), byte(w>>8))
	}
	return data
}

// setWords is the inverse of setBytes; an odd byte at the end is lost.
func setWords(data []byte) rowSet {
	var s rowSet
	for ; len(data) > 1; data = data[2:] {
		s = append(s, uint16(data[0])|uint16(data[1])<<8)
	}
	return s
}

// drawSets are lists with containers of both sorts, at the edges between them.
func drawSets(r *rand.Rand) [][]Posting {
	lists := [][]Posting{nil}
	draw := func(limit, n int) {
		rows := roaring.New()
		for int(rows.GetCardinality()) < n {
			rows.Add(uint32(r.IntN(limit)))
		}
		var list []Posting
		for _, row := range rows.ToArray() {
			list = append(list, Posting{row, r.Float32()})
		}
		lists = append(lists, list)
	}
	for _, n := range []int{1, 2, 63, 4095, 4096, 4097, 9000} {
		draw(10_000, n)
		draw(windowRows, n)
		draw(3*windowRows, 3*n)
	}
	draw(9*windowRows, 6) // containers of one row, and keys that are left out
	draw(windowRows, windowRows)
	lists = append(lists, nil, []Posting{{0, 1}}, []Posting{{9*windowRows - 1, 1}})
	return lists
}

func TestRowSetsAreRoaringBitmaps(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 1))
	lists := drawSets(r)
	sets := newRowSets()
	for _, list := range lists {
		sets.add(list)
	}
	must(t, sets.validate(len(lists), 9*windowRows))
	for i, want := range lists {
		list := sets.list(i)
		var rows []uint32
		var got []Posting
		list.each(func(row uint32, value float32) { got = append(got, Posting{row, value}); rows = append(rows, row) })
		if !slices.Equal(got, want) || sets.size(i) != len(want) {
			t.Fatalf("list %d of %d rows is read as %d others", i, len(want), len(got))
		}
		if len(want) == 0 {
			continue
		}
		var b roaring.Bitmap
		n, err := b.FromBuffer(setBytes(list.set))
		if err != nil || int(n) != 2*len(list.set) {
			t.Fatalf("list %d: package roaring reads %d of %d bytes: %v", i, n, 2*len(list.set), err)
		}
		if err := b.Validate(); err != nil || !slices.Equal(b.ToArray(), rows) {
			t.Fatalf("list %d: package roaring reads other rows (%v)", i, err)
		}
		union := make([]uint64, 9*windowRows/64)
		list.mark(union)
		sums, wanted := make([]float32, 9*windowRows), make([]float32, 9*windowRows)
		list.scatter(sums, 0.3)
		for _, e := range want {
			wanted[e.Row] += 0.3 * e.Value
			if union[e.Row/64]>>(e.Row%64)&1 == 0 {
				t.Fatalf("list %d: row %d is not marked", i, e.Row)
			}
		}
		if !slices.Equal(sums, wanted) {
			t.Fatalf("list %d: the sums are others", i)
		}
	}
	if err := sets.validate(len(lists), 9*windowRows-1); err == nil {
		t.Error("a row beyond the last is accepted")
	}
}

// TestCursorsSeek compares cursors with the iterator of package roaring.
func TestCursorsSeek(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 1))
	sets := newRowSets()
	lists := drawSets(r)
	for _, list := range lists {
		sets.add(list)
	}
	for i, want := range lists {
		if len(want) == 0 {
			continue
		}
		for _, stride := range []int{1, 3, 100, 5000, 70_000} {
			list := sets.list(i)
			c := cursor{list: list, containers: list.set.containers()}
			c.open(0, 0)
			at := 0
			for {
				if c.row != want[at].Row || c.rank != at {
					t.Fatalf("list %d: at row %d, rank %d, want %d, %d", i, c.row, c.rank, want[at].Row, at)
				}
				to := c.row + 1 + uint32(r.IntN(stride))
				for at++; at < len(want) && want[at].Row < to; at++ {
				}
				if ok := c.seek(to); ok != (at < len(want)) {
					t.Fatalf("list %d: row %d or above: %v", i, to, ok)
				} else if !ok {
					break
				}
			}
		}
	}
}

// FuzzRowSet gives any bytes as a set. What is valid must be read by package
// roaring as the same rows, and what that reads as a valid bitmap without runs
// must be valid, as long as nothing in it is left to the reader: the offsets.
func FuzzRowSet(f *testing.F) {
	r := rand.New(rand.NewPCG(22, 1))
	sets := newRowSets()
	for i, list := range drawSets(r) {
		sets.add(list)
		if set := sets.list(i).set; len(set) < 200 {
			f.Add(setBytes(set))
		}
	}
	runs := roaring.New()
	runs.AddRange(5, 5000)
	data, err := runs.ToBytes()
	must(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 3*windowRows + 100
		data = data[:len(data)&^1]
		set := setWords(data)
		var b roaring.Bitmap
		n, err := b.FromBuffer(data)
		readable := err == nil && int(n) == len(data) && b.Validate() == nil
		rows := 0
		if readable {
			rows = int(b.GetCardinality())
		}
		if err := set.validate(rows, limit); err != nil {
			if !readable || rows == 0 || b.HasRunCompression() || int(b.Maximum()) >= limit {
				return
			}
			if plain, err := b.ToBytes(); err == nil && bytes.Equal(plain, data) {
				t.Fatalf("package roaring accepts %x", data)
			}
			return
		}
		if len(data) == 0 {
			return
		}
		if !readable {
			t.Fatalf("package roaring refuses %x", data)
		}
		list := rowList{set, make([]float32, rows)}
		var got []uint32
		list.each(func(row uint32, _ float32) { got = append(got, row) })
		if !slices.Equal(got, b.ToArray()) {
			t.Fatalf("package roaring reads other rows in %x", data)
		}
		c := cursor{list: list, containers: set.containers()}
		c.open(0, 0)
		for i := 1; c.seek(c.row + 1 + uint32(data[i%len(data)])); i++ {
			if c.rank >= rows {
				t.Fatalf("rank %d of %d rows in %x", c.rank, rows, data)
			}
		}
	})
}
