package postings

import (
	"math/bits"
	"unsafe"

	"github.com/anndb/anndb/vector"
)

// A row is scored in two steps: a filter that the query has marked rejects most of its
// features, then the others are looked up. So the chain of float64 additions, each of which
// waits for the previous one, contains no zeros.
const (
	// filterSize is a power of two that keeps the filter in the first-level cache.
	filterSize = 1 << 14
	// shortRow is the maximum number of features of a row that is scored without the filter.
	shortRow = 24
	// directCols is the maximum number of features that are looked up in an array, which stays
	// in the second-level cache. Beyond it, a hash table is faster.
	directCols = 1 << 16
)

// scorer computes exact scores of rows. It returns the bits of vector.DotSparse: the same
// products in the same order, without additions of zero, which change nothing.
type scorer struct {
	rows   *vector.CSR // rows or source is set, the other is nil
	source *Source
	bm25   BM25 // with the present mean
	filter [filterSize]uint8
	found  []uint32 // scratch: entries that pass the filter
	read   int      // entries of the rows scored

	direct bool
	dense  []float32 // the query by feature, zero elsewhere
	table  []slot    // open addressing, at most a quarter full; a slice of room
	room   []slot
	shift  uint
}

// slot is an entry of the hash table; a free slot has weight zero.
type slot struct {
	feature uint32
	weight  float32
	idf     float32 // weight of the feature in the Source, if it has weights
}

// load loads a query whose features the index may have. mean is that of BM25.
func (c *scorer) load(ix *Index, q []term, mean float64) {
	c.rows, c.source, c.read = ix.Rows, ix.Source, 0
	if c.source != nil && c.source.BM25 != nil {
		c.bm25 = *c.source.BM25
		c.bm25.Mean = mean
	}
	width := ix.Features() // exceeds every feature of the rows
	if c.source != nil {
		width = c.source.width
	}
	c.direct = width <= directCols
	for _, t := range q {
		c.filter[t.feature%filterSize] = 1
	}
	if c.direct {
		if len(c.dense) < width {
			c.dense = make([]float32, width)
		}
		for _, t := range q {
			c.dense[t.feature] = t.weight
		}
		return
	}
	size := 16
	for size < 4*len(q) {
		size *= 2
	}
	if len(c.room) < size {
		c.room = make([]slot, size)
	}
	c.table = c.room[:size] // no longer than needed, since all of it is cleared
	c.shift = uint(32 - bits.Len(uint(len(c.table)-1)))
	for _, t := range q {
		f := t.feature
		i := c.firstSlot(f)
		for c.table[i].weight != 0 {
			i = (i + 1) % uint32(len(c.table))
		}
		c.table[i] = slot{feature: f, weight: t.weight}
		if c.source != nil && c.source.IDF != nil {
			c.table[i].idf = c.source.IDF[f]
		}
	}
}

// firstSlot returns the first place to probe for a feature: Fibonacci hashing (Knuth 1998, section
// 6.4).
func (c *scorer) firstSlot(feature uint32) uint32 { return feature * 0x9e3779b1 >> c.shift }

// unload removes the query.
func (c *scorer) unload(q []term) {
	for _, t := range q {
		c.filter[t.feature%filterSize] = 0
		if c.direct {
			c.dense[t.feature] = 0
		}
	}
	if !c.direct {
		clear(c.table)
	}
}

// weight returns the value of a feature in the query.
func (c *scorer) weight(feature uint32) float32 {
	if c.direct {
		return c.dense[feature]
	}
	return c.find(feature).weight
}

// find returns the slot of a feature, or a free one.
func (c *scorer) find(feature uint32) *slot {
	for i := c.firstSlot(feature); ; i = (i + 1) & uint32(len(c.table)-1) {
		if e := &c.table[i]; e.feature == feature || e.weight == 0 {
			return e
		}
	}
}

// score returns the exact score of row i.
func (c *scorer) score(i uint32) float64 {
	if c.source != nil {
		return c.scoreSource(i)
	}
	lo, hi := c.rows.Ptr[i], c.rows.Ptr[i+1]
	index := c.rows.Index[lo:hi]
	c.read += len(index)
	if c.direct && len(index) <= shortRow && c.rows.Value != nil {
		return c.scoreShort(index, c.rows.Value[lo:hi])
	}
	if cap(c.found) < len(index) {
		c.found = make([]uint32, len(index)+len(index)/2)
	}
	found := c.found[:len(index)]
	found = found[:matchEntries(index, &c.filter, found)]
	var sum float64
	// The product of two float32 is exact in float64, so fusing it with the addition, as some
	// processors do, changes no bit.
	switch {
	case c.rows.Value == nil:
		for _, e := range found {
			sum += float64(c.weight(index[e]))
		}
	case c.direct:
		value := c.rows.Value[lo:hi]
		for _, e := range found {
			sum += float64(c.dense[index[e]]) * float64(value[e])
		}
	default:
		value := c.rows.Value[lo:hi]
		for _, e := range found {
			sum += float64(c.weight(index[e])) * float64(value[e])
		}
	}
	return sum
}

// scoreShort adds all products of a row; zero products change nothing.
func (c *scorer) scoreShort(index []uint32, value []float32) float64 {
	var sum float64
	value = value[:len(index)]
	for e, f := range index {
		sum += float64(c.dense[f]) * float64(value[e])
	}
	return sum
}

// scoreSource is score for a row of a Source. It computes values on demand.
func (c *scorer) scoreSource(i uint32) float64 {
	s := c.source
	r, norm := s.Row(i), s.Norm[i]
	c.read += len(r.Index)
	if norm == 0 {
		return 0
	}
	if cap(c.found) < len(r.Index) {
		c.found = make([]uint32, len(r.Index)+len(r.Index)/2)
	}
	found := c.found[:len(r.Index)]
	found = found[:matchEntries(r.Index, &c.filter, found)]
	var sum float64
	switch {
	case s.BM25 != nil:
		base := c.bm25.base(norm)
		for _, e := range found {
			if w := c.weight(r.Index[e]); w != 0 {
				sum += c.bm25.share(w, r.Value[e], base)
			}
		}
	case s.IDF == nil:
		for _, e := range found {
			sum += float64(c.weight(r.Index[e])) * float64(float32(float64(r.Value[e])/norm))
		}
	case c.direct:
		for _, e := range found {
			f := r.Index[e]
			if w := c.dense[f]; w != 0 { // nonzero only for f < cols
				sum += float64(w) * float64(float32(float64(TermWeight(r.Value[e])*s.IDF[f])/norm))
			}
		}
	default:
		for _, e := range found {
			if t := c.find(r.Index[e]); t.weight != 0 {
				sum += float64(t.weight) * float64(float32(float64(TermWeight(r.Value[e])*t.idf)/norm))
			}
		}
	}
	return sum
}

// exactCount is the number of equal products of float32 that add up without rounding: each has
// 48 of the 53 bits.
const exactCount = 32

// equalProducts returns the sum of count equal products, as vector.DotSparse adds them.
func equalProducts(a, b float32, count int) float64 {
	product := float64(a) * float64(b)
	if count <= exactCount {
		return float64(count) * product
	}
	var sum float64
	for range count {
		sum += product
	}
	return sum
}

// row returns row i, short or long.
func (c *scorer) row(i uint32) vector.Sparse {
	if c.source != nil {
		return c.source.Row(i)
	}
	return c.rows.Row(int(i))
}

// prefetchBytes is the size of the prefetched start of a row. The hardware prefetches the rest,
// since a row is read sequentially.
const prefetchBytes = 512

// nearEntries is the number of entries from which rows are assumed not to be in the
// second-level cache.
const nearEntries = 1 << 15

// prefetch prefetches row i, which is about to be scored.
func (c *scorer) prefetch(i uint32) {
	if c.source != nil && c.source.entries < nearEntries || c.source == nil &&
		len(c.rows.Index) < nearEntries {
		return
	}
	r := c.row(i)
	if len(r.Index) == 0 {
		return
	}
	n := min(4*len(r.Index), prefetchBytes)
	vector.Prefetch(unsafe.Pointer(&r.Index[0]), n)
	if r.Value != nil {
		vector.Prefetch(unsafe.Pointer(&r.Value[0]), n)
	}
}

// up returns x raised by a relative 10⁻¹²: upper bounds computed in float64 remain bounds after
// rounding.
func up(x float64) float64 { return x * (1 + 1e-12) }
