package postings

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// Lists are the inverted lists of the features that any row has. List i is that of Feature[i]. Its
// rows are a roaring bitmap as 16-bit words: Sets[At[i]:At[i+1]]. In ascending order they have the codes
// Code[First[i]:First[i+1]].
//
// Code c stands for a value of at most c²·Max[i]/255²: codes are rounded up, so that sums of what
// they stand for are upper bounds of scores. Squares give more codes to the many low values of a
// feature than to the few high ones.
//
// If each row holds one value only, as binary rows of unit length do, there are no codes: First and Code are
// empty. Value has the value of each row, and Ratio that of Value to Index.Norm in 2⁻¹⁶, rounded up.
//
// Searches read the words in place: package roaring creates a heap object for every container,
// and its iterators do not return the rank of a row, which is the index of its code. Run
// containers would save next to nothing.
type Lists struct {
	Feature []uint32 // ascending
	Max     []float32
	At      []uint32
	Sets    []uint16
	First   []uint32
	Code    []uint8 // codePadding more than there are postings
	Value   []float32
	Ratio   []uint16
}

const (
	// codePadding is the number of codes that a kernel may read after the last one.
	codePadding = 8
	// maxSquare is the square of the highest code.
	maxSquare = 255 * 255
)

// rowList is one list.
type rowList struct {
	set  rowSet
	code []uint8 // of the list's rows, and what follows
}

func (l *Lists) list(i int) rowList {
	list := rowList{set: l.Sets[l.At[i]:l.At[i+1]]}
	if l.hasCodes() {
		list.code = l.Code[l.First[i]:]
	}
	return list
}

func (l *Lists) hasCodes() bool { return len(l.Value) == 0 }

// Bytes returns the memory of the lists: the size of the index on disk without the lengths of rows.
func (l *Lists) Bytes() int {
	return 4*(len(l.Feature)+len(l.Max)+len(l.At)+len(l.First)+len(l.Value)) +
		2*(len(l.Sets)+len(l.Ratio)) + len(l.Code)
}

// find returns the number of a feature's list; the search starts at list from.
func (l *Lists) find(feature uint32, from int) (list int, ok bool) {
	lo, step := from, 1 // all before lo are lower than feature
	for lo+step <= len(l.Feature) && l.Feature[lo+step-1] < feature {
		lo += step
		step *= 2
	}
	i, ok := slices.BinarySearch(l.Feature[lo:min(lo+step, len(l.Feature))], feature)
	return lo + i, ok
}

// Count returns the number of rows that have a feature, in lists with codes, and where to look for a later
// feature: from, and 0 at first.
func (l *Lists) Count(feature uint32, from int) (n, next int) {
	i, ok := l.find(feature, from)
	if !ok {
		return 0, i
	}
	return int(l.First[i+1] - l.First[i]), i
}

// RowsWith returns the rows that have a feature.
func (ix *Index) RowsWith(feature uint32) *roaring.Bitmap {
	out := roaring.New()
	i, ok := ix.find(feature, 0)
	if !ok {
		return out
	}
	set := ix.list(i).set
	var rows []uint32
	for c := 0; c < set.end(ix.Len()); {
		var in rowContainer
		in, c = set.container(c, ix.Len())
		rows = rows[:0]
		base := uint32(in.key) << windowBits
		for at, w := range in.words {
			if !in.isBitmap() {
				rows = append(rows, base|uint32(w))
				continue
			}
			for ; w != 0; w &= w - 1 {
				rows = append(rows, base|uint32(16*at+bits.TrailingZeros16(w)))
			}
		}
		out.AddMany(rows)
	}
	return out
}

// rowSet is a roaring bitmap in the portable format (RoaringFormatSpec) without run containers: the
// cookie and the number of containers, each of two words, low half first; for each container two
// words, its key and its cardinality − 1; for each container the offset in bytes, of two words; and
// the containers. It differs in two points: a bitmap ends with the last row of the segment, so it is
// shorter than a list of its rows, and takes its place, from fewer rows on; and instead of a bitmap
// whose rows need no more words than its header, a set has the low halves of these rows and, if the
// segment has more than one window, their high halves.
type rowSet []uint16

const (
	// windowBits is the width of a row's number inside a container, or window of rows.
	windowBits = 16
	windowRows = 1 << windowBits
	// setCookie is the first word of bitmaps without run containers.
	setCookie = 12346
	// setHeader is the number of words before the first key.
	setHeader = 4
	// containerHeader is the number of words of a container's key, cardinality and offset.
	containerHeader = 4
	// fewWords is the maximum number of words of a set without a header: fewer than a bitmap has.
	fewWords = setHeader + containerHeader
)

// rowContainer holds the rows of a rowSet whose high half is key.
type rowContainer struct {
	key uint16
	n   int
	// words are the low halves of the rows, or a bit for each row of the window.
	words []uint16
}

// isBitmap reports whether the words are bits: a list of the rows has as many words as rows.
func (c *rowContainer) isBitmap() bool { return c.n > len(c.words) }

func (s rowSet) wide(at int) uint32 { return uint32(s[at]) | uint32(s[at+1])<<16 }

func (s rowSet) hasHeader() bool { return len(s) > fewWords }

// end returns the number of containers of a valid set of a segment with a number of rows, or the
// number of its own rows without a header.
func (s rowSet) end(rows int) int {
	switch {
	case s.hasHeader():
		return int(s.wide(2))
	case rows > windowRows:
		return len(s) / 2
	}
	return len(s)
}

// key returns the key of container i of a valid set, or of row i without a header.
func (s rowSet) key(i, rows int) uint16 {
	switch {
	case s.hasHeader():
		return s[setHeader+2*i]
	case rows > windowRows:
		return s[len(s)/2+i]
	}
	return 0
}

// container returns container i of a valid set, or the one that begins with row i, and where the next begins.
func (s rowSet) container(i, rows int) (c rowContainer, next int) {
	c.key = s.key(i, rows)
	if s.hasHeader() {
		c.n = int(s[setHeader+2*i+1]) + 1
		at := s.wide(setHeader+2*int(s.wide(2))+2*i) / 2
		c.words = s[at : int(at)+min(c.n, bitmapWords(c.key, rows))]
		return c, i + 1
	}
	next = i + 1
	for end := s.end(rows); next < end && s.key(next, rows) == c.key; next++ {
	}
	c.n, c.words = next-i, s[i:next]
	return c, next
}

// bitmapWords returns the number of words of a bitmap of the rows of a window, a multiple of four. A
// container is a list of its rows if that has no more words.
func bitmapWords(key uint16, rows int) int {
	return (min(rows-int(key)<<windowBits, windowRows) + 63) / 64 * 4
}

// newLists returns no lists, with room for a number of postings. value is Lists.Value.
func newLists(postings int, value []float32) Lists {
	l := Lists{At: []uint32{0}, Sets: make([]uint16, 0, postings), Value: value}
	if l.hasCodes() {
		l.First, l.Code = []uint32{0}, make([]uint8, 0, postings+codePadding)
	}
	return l
}

// add appends the list of a feature, above the last one's, with rows that ascend; no list if there are
// none. rows is the number of all rows.
func (l *Lists) add(feature uint32, list []posting, rows int) {
	if len(list) == 0 {
		return
	}
	var most float32
	for _, e := range list {
		most = max(most, e.value)
	}
	l.Feature, l.Max = append(l.Feature, feature), append(l.Max, most)
	l.Sets = appendSet(l.Sets, list, rows)
	l.At = append(l.At, uint32(len(l.Sets)))
	if !l.hasCodes() {
		return
	}
	for _, e := range list {
		l.Code = append(l.Code, codeOf(e.value, most))
	}
	l.First = append(l.First, uint32(len(l.Code)))
}

// end closes the lists.
func (l *Lists) end() {
	if l.hasCodes() {
		l.Code = append(l.Code, make([]uint8, codePadding)...)
	}
}

// codeOf returns the smallest code that stands for at least a value above zero, up to rounding.
func codeOf(value, most float32) uint8 {
	c := math.Sqrt(float64(value) * maxSquare / float64(most))
	return uint8(min(max(math.Ceil(c*(1-1e-12)), 1), 255))
}

// appendSet appends the rows of a list, of a number of rows in all, as a rowSet.
func appendSet(dst []uint16, list []posting, rows int) []uint16 {
	if rows > windowRows && 2*len(list) <= fewWords || rows <= windowRows && len(list) <= fewWords {
		return appendFew(dst, list, rows)
	}
	start := len(dst)
	dst = append(dst, setCookie, 0, 0, 0)
	containers := 0
	for at := 0; at < len(list); containers++ {
		n := containerRows(list[at:])
		dst = append(dst, uint16(list[at].row>>windowBits), uint16(n-1))
		at += n
	}
	dst[start+2], dst[start+3] = uint16(containers), uint16(containers>>16)
	offsets := len(dst)
	dst = append(dst, make([]uint16, 2*containers)...)
	for i := range containers {
		offset := 2 * (len(dst) - start)
		dst[offsets+2*i], dst[offsets+2*i+1] = uint16(offset), uint16(offset>>16)
		n := containerRows(list)
		dst = appendContainer(dst, list[:n], bitmapWords(uint16(list[0].row>>windowBits), rows))
		list = list[n:]
	}
	return dst
}

// appendFew appends a set without a header.
func appendFew(dst []uint16, list []posting, rows int) []uint16 {
	for _, e := range list {
		dst = append(dst, uint16(e.row))
	}
	for _, e := range list {
		if rows > windowRows {
			dst = append(dst, uint16(e.row>>windowBits))
		}
	}
	return dst
}

// containerRows returns how many rows at the start of a list share their high half.
func containerRows(list []posting) int {
	key := list[0].row >> windowBits
	n := 1
	for n < len(list) && list[n].row>>windowBits == key {
		n++
	}
	return n
}

// appendContainer appends the rows of a container, whose bitmap would have a number of words.
func appendContainer(dst []uint16, list []posting, words int) []uint16 {
	if len(list) <= words {
		for _, e := range list {
			dst = append(dst, uint16(e.row))
		}
		return dst
	}
	at := len(dst)
	dst = append(dst, make([]uint16, words)...)
	for _, e := range list {
		low := uint16(e.row)
		dst[at+int(low/16)] |= 1 << (low % 16)
	}
	return dst
}

// validate checks lists of features below features and of rows below rows.
func (l *Lists) validate(rows, features int) error {
	n := len(l.Feature)
	if len(l.Max) != n || !spans(l.At, n, len(l.Sets)) {
		return fmt.Errorf("%w: offsets of %d lists do not span the sets", ErrInvalid, n)
	}
	if l.hasCodes() && !spans(l.First, n, len(l.Code)-codePadding) {
		return fmt.Errorf("%w: offsets of %d lists do not span the codes", ErrInvalid, n)
	}
	if len(l.Ratio) != len(l.Value) ||
		!l.hasCodes() && (len(l.Value) != rows || len(l.First)+len(l.Code) > 0) {
		return fmt.Errorf("%w: %d values and %d ratios of %d rows, with %d codes", ErrInvalid, len(l.Value),
			len(l.Ratio), rows, len(l.Code))
	}
	for i, f := range l.Feature {
		if int(f) >= features || i > 0 && f <= l.Feature[i-1] {
			return fmt.Errorf("%w: list %d is of feature %d of %d", ErrInvalid, i, f, features)
		}
		if x := float64(l.Max[i]); !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("%w: the highest value of list %d is %g", ErrInvalid, i, x)
		}
		count, err := rowSet(l.Sets[l.At[i]:l.At[i+1]]).validate(rows)
		if err == nil && l.hasCodes() && count != int(l.First[i+1]-l.First[i]) {
			err = fmt.Errorf("%w: %d rows, %d codes", ErrInvalid, count, l.First[i+1]-l.First[i])
		}
		if err != nil {
			return fmt.Errorf("list %d: %w", i, err)
		}
	}
	return nil
}

// spans reports whether offsets of n lists ascend from zero to length.
func spans(offsets []uint32, n, length int) bool {
	return len(offsets) == n+1 && offsets[0] == 0 && int(offsets[n]) == length && slices.IsSorted(offsets)
}

// validate checks a set of rows below limit and returns their number.
func (s rowSet) validate(limit int) (rows int, err error) {
	if !s.hasHeader() {
		return s.validateFew(limit)
	}
	if s.wide(0) != setCookie {
		return 0, fmt.Errorf("%w: no bitmap without run containers", ErrInvalid)
	}
	containers := int(s.wide(2))
	if containers < 1 || containers > windowRows || len(s) <= setHeader+containerHeader*containers {
		return 0, fmt.Errorf("%w: %d containers in %d words", ErrInvalid, containers, len(s))
	}
	at, last := setHeader+containerHeader*containers, -1
	for i := range containers {
		key, card := int(s[setHeader+2*i]), int(s[setHeader+2*i+1])+1
		room := min(limit-key<<windowBits, windowRows)
		if key <= last || room <= 0 {
			return 0, fmt.Errorf("%w: container %d has key %d after %d, with %d rows in all",
				ErrInvalid, i, key, last, limit)
		}
		last = key
		end := at + min(card, bitmapWords(uint16(key), limit))
		if offset := s.wide(setHeader + 2*containers + 2*i); uint64(offset) != 2*uint64(at) ||
			end > len(s) {
			return 0, fmt.Errorf("%w: container %d of %d rows at byte %d of %d", ErrInvalid, i, card,
				offset, 2*len(s))
		}
		if err := validContainer(s[at:end], card, room); err != nil {
			return 0, fmt.Errorf("container %d: %w", i, err)
		}
		at, rows = end, rows+card
	}
	if at != len(s) {
		return 0, fmt.Errorf("%w: %d rows in %d words of %d", ErrInvalid, rows, at, len(s))
	}
	return rows, nil
}

// validateFew is validate without a header.
func (s rowSet) validateFew(limit int) (rows int, err error) {
	if len(s) == 0 || limit > windowRows && len(s)%2 != 0 {
		return 0, fmt.Errorf("%w: a set of %d words", ErrInvalid, len(s))
	}
	last := -1
	for i := range s.end(limit) {
		row := int(s.key(i, limit))<<windowBits | int(s[i])
		if row <= last || row >= limit {
			return 0, fmt.Errorf("%w: row %d after %d of %d", ErrInvalid, row, last, limit)
		}
		last = row
	}
	return s.end(limit), nil
}

// validContainer checks the words of a container of card rows below room.
func validContainer(words []uint16, card, room int) error {
	if card > len(words) {
		ones, highest := 0, 0
		for w, word := range words {
			if word != 0 {
				ones += bits.OnesCount16(word)
				highest = 16*w + bits.Len16(word) - 1
			}
		}
		if ones != card || highest >= room {
			return fmt.Errorf("%w: %d bits up to row %d, want %d below %d", ErrInvalid, ones,
				highest, card, room)
		}
		return nil
	}
	for i, low := range words {
		if i > 0 && low <= words[i-1] {
			return fmt.Errorf("%w: row %d after %d", ErrInvalid, low, words[i-1])
		}
	}
	if highest := int(words[card-1]); highest >= room {
		return fmt.Errorf("%w: row %d of %d", ErrInvalid, highest, room)
	}
	return nil
}
