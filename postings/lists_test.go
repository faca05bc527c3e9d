package postings

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// rowsOf returns the rows of a valid set of a segment with a number of rows.
func rowsOf(s rowSet, rows int) (out []uint32) {
	for i := 0; i < s.end(rows); {
		var c rowContainer
		c, i = s.container(i, rows)
		base := uint32(c.key) << windowBits
		if !c.isBitmap() {
			for _, low := range c.words {
				out = append(out, base+uint32(low))
			}
			continue
		}
		for w, word := range c.words {
			for ; word != 0; word &= word - 1 {
				out = append(out, base+uint32(16*w+bits.TrailingZeros16(word)))
			}
		}
	}
	return out
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
func drawSets(r *rand.Rand) [][]posting {
	var lists [][]posting
	draw := func(limit, n int) {
		rows := roaring.New()
		for int(rows.GetCardinality()) < n {
			rows.Add(uint32(r.IntN(limit)))
		}
		var list []posting
		for _, row := range rows.ToArray() {
			list = append(list, posting{row, r.Float32() + 0.01})
		}
		lists = append(lists, list)
	}
	for _, n := range []int{1, 2, 4, 5, 8, 9, 63, 4095, 4096, 4097, 9000} {
		draw(10_000, n)
		draw(windowRows, n)
		draw(3*windowRows, 3*n)
	}
	draw(9*windowRows, 6) // containers of one row, and keys that are left out
	draw(windowRows, windowRows)
	lists = append(lists, []posting{{0, 1}}, []posting{{9*windowRows - 1, 1}})
	return lists
}

// listsOf are the lists of features 0, 1 and so on.
func listsOf(lists [][]posting, rows int) *Lists {
	l := newLists(0, nil)
	for i, list := range lists {
		l.add(uint32(i), list, rows)
	}
	l.end()
	return &l
}

// TestSetsAreRoaringBitmaps: package roaring reads the sets of segments without a short window.
func TestSetsAreRoaringBitmaps(t *testing.T) {
	const rows = 9 * windowRows
	lists := drawSets(rand.New(rand.NewPCG(20, 1)))
	l := listsOf(lists, rows)
	must(t, l.validate(rows, len(lists)))
	for i, want := range lists {
		list := l.list(i)
		var wanted []uint32
		for j, e := range want {
			wanted = append(wanted, e.row)
			code := float64(list.code[j])
			step := float64(l.Max[i]) / maxSquare
			if value := float64(e.value); code*code*step < value*(1-1e-9) || (code-1)*(code-1)*step >= value {
				t.Fatalf("list %d: code %g of value %g, the highest is %g", i, code, value, l.Max[i])
			}
		}
		if !slices.Equal(rowsOf(list.set, rows), wanted) {
			t.Fatalf("list %d of %d rows is read as other ones", i, len(want))
		}
		if !list.set.hasHeader() {
			continue
		}
		var b roaring.Bitmap
		n, err := b.FromBuffer(setBytes(list.set))
		if err != nil || int(n) != 2*len(list.set) {
			t.Fatalf("list %d: package roaring reads %d of %d bytes: %v", i, n, 2*len(list.set), err)
		}
		if err := b.Validate(); err != nil || !slices.Equal(b.ToArray(), wanted) {
			t.Fatalf("list %d: package roaring reads other rows (%v)", i, err)
		}
	}
	if err := l.validate(rows-1, len(lists)); err == nil {
		t.Error("a row beyond the last is accepted")
	}
}

// TestShortWindows: a bitmap ends with the rows, and has no more words than a list of its rows.
func TestShortWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 1))
	for range 300 {
		rows := windowRows*r.IntN(2) + 1 + r.IntN(3000)
		share := []float64{0.01, 0.06, 0.07, 0.5, 1}[r.IntN(5)]
		var list []posting
		var want []uint32
		for row := range uint32(rows) {
			if r.Float64() < share {
				list, want = append(list, posting{row, 1}), append(want, row)
			}
		}
		if len(list) == 0 {
			continue
		}
		l := listsOf([][]posting{list}, rows)
		must(t, l.validate(rows, 1))
		set := l.list(0).set
		if got := rowsOf(set, rows); !slices.Equal(got, want) {
			t.Fatalf("%d of %d rows are read as %d others", len(want), rows, len(got))
		}
		header := 0
		if set.hasHeader() {
			header = setHeader + containerHeader*set.end(rows)
		}
		if n := len(set) - header; n > fewWords && (n > len(want) || n > rows/16+4) {
			t.Fatalf("%d words for %d of %d rows", n, len(want), rows)
		}
	}
}

// cursorsOf returns a cursor at the first row of each container of a list.
func cursorsOf(list rowList, rows int) (cursors []*part) {
	rank := 0
	for i := 0; i < list.set.end(rows); {
		p := &part{code: list.code[rank:]}
		p.in, i = list.set.container(i, rows)
		p.open()
		rank += p.in.n
		cursors = append(cursors, p)
	}
	return cursors
}

// TestCursorsSeek compares cursors with the rows that a list was made of.
func TestCursorsSeek(t *testing.T) {
	const rows = 9 * windowRows
	r := rand.New(rand.NewPCG(21, 1))
	lists := drawSets(r)
	l := listsOf(lists, rows)
	for i := range lists {
		want := lists[i]
		for _, p := range cursorsOf(l.list(i), rows) {
			own := want[:p.in.n]
			want = want[p.in.n:]
			for _, stride := range []int{1, 3, 100, 5000} {
				at := 0
				for p.open(); ; {
					if low := int(own[at].row) % windowRows; p.row != low || p.rank != at {
						t.Fatalf("list %d: at row %d, rank %d, want %d, %d", i, p.row, p.rank, low, at)
					}
					to := p.row + 1 + r.IntN(stride)
					for at++; at < len(own) && int(own[at].row)%windowRows < to; at++ {
					}
					if to >= windowRows {
						break
					}
					if ok := p.seek(uint16(to)); ok != (at < len(own)) {
						t.Fatalf("list %d: row %d or above: %v", i, to, ok)
					} else if !ok {
						break
					}
				}
			}
		}
	}
}

// FuzzRowSet gives any bytes as a set. What is valid must be read by package
// roaring as the same rows, and what that reads as a valid bitmap without runs
// must be valid, as long as nothing in it is left to the reader: the offsets.
func FuzzRowSet(f *testing.F) {
	for _, list := range drawSets(rand.New(rand.NewPCG(22, 1))) {
		if set := appendSet(nil, list, 9*windowRows); len(set) < 200 {
			f.Add(setBytes(set))
		}
	}
	runs := roaring.New()
	runs.AddRange(5, 5000)
	data, err := runs.ToBytes()
	must(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 3 * windowRows
		data = data[:len(data)&^1]
		set := setWords(data)
		if !set.hasHeader() {
			return
		}
		var b roaring.Bitmap
		n, err := b.FromBuffer(data)
		readable := err == nil && int(n) == len(data) && b.Validate() == nil
		rows := 0
		if readable {
			rows = int(b.GetCardinality())
		}
		if n, err := set.validate(limit); err != nil || n != rows {
			if !readable || rows == 0 || b.HasRunCompression() || int(b.Maximum()) >= limit {
				return
			}
			if plain, err2 := b.ToBytes(); err2 == nil && bytes.Equal(plain, data) {
				t.Fatalf("package roaring accepts %x", data)
			}
			return
		}
		if !readable {
			t.Fatalf("package roaring refuses %x", data)
		}
		if !slices.Equal(rowsOf(set, limit), b.ToArray()) {
			t.Fatalf("package roaring reads other rows in %x", data)
		}
		for _, p := range cursorsOf(rowList{set, make([]uint8, rows)}, limit) {
			for i := 1; ; i++ {
				to := p.row + 1 + int(data[i%len(data)])
				if to >= windowRows || !p.seek(uint16(to)) {
					break
				}
				if p.rank >= p.in.n {
					t.Fatalf("rank %d of %d rows in %x", p.rank, p.in.n, data)
				}
			}
		}
	})
}

// FuzzSet gives any bytes as a set of a segment with a short window: what is valid is read inside the set.
func FuzzSet(f *testing.F) {
	f.Add(uint32(3*windowRows), setBytes(appendSet(nil, []posting{{1, 1}, {5, 1}, {windowRows + 5, 1}}, 3*windowRows)))
	f.Add(uint32(70), setBytes(appendSet(nil, []posting{{1, 1}, {5, 1}, {60, 1}, {61, 1}, {69, 1}}, 70)))
	f.Add(uint32(9), setBytes(appendSet(nil, []posting{{1, 1}, {5, 1}, {6, 1}, {7, 1}, {8, 1}}, 9)))
	f.Fuzz(func(t *testing.T, rows uint32, data []byte) {
		set := setWords(data)
		n, err := set.validate(int(rows))
		if err != nil {
			return
		}
		got := rowsOf(set, int(rows))
		if len(got) != n || !slices.IsSorted(got) || got[n-1] >= uint32(rows) {
			t.Fatalf("rows %v of %d", got, rows)
		}
	})
}
