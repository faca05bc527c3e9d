package postings

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/anndb/anndb/vector"
)

// directCols is the most features for which a row is scored by looking every
// feature up in the dense query: up to here that array stays in the second
// cache. Beyond, a small bitmap first drops the features the query lacks, and
// the others are looked up in a hash table.
const directCols = 1 << 16

// filterBits is the size of the bitmap: 2 KiB, which stays in the first cache.
const filterBits = 1 << 14

// scorer computes exact scores of rows. It gives the bits of
// vector.DotSparse: the same products in the same order, with additions of
// zero between them, which change nothing.
type scorer struct {
	rows   *vector.CSR
	direct bool
	dense  []float32 // the query by feature, zero elsewhere

	filter [filterBits / 64]uint64
	found  []uint32 // scratch: entries that pass the filter
	table  []slot   // open addressing, at most a quarter full
	shift  uint
}

// slot is an entry of the hash table; a free one has weight zero.
type slot struct {
	feature uint32
	weight  float32
}

// load takes a query, whose features lie below rows.Cols.
func (c *scorer) load(rows *vector.CSR, q []term) {
	c.rows, c.direct = rows, rows.Cols <= directCols
	if c.direct {
		if len(c.dense) < rows.Cols {
			c.dense = make([]float32, rows.Cols)
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
	if len(c.table) < size {
		c.table = make([]slot, size)
	}
	c.shift = uint(32 - bits.Len(uint(len(c.table)-1)))
	for _, t := range q {
		i := c.home(t.feature)
		for c.table[i].weight != 0 {
			i = (i + 1) % uint32(len(c.table))
		}
		c.table[i] = slot{t.feature, t.weight}
		b := t.feature % filterBits
		c.filter[b/64] |= 1 << (b % 64)
	}
}

// home is the place of a feature in the table unless it is taken: Fibonacci
// hashing (Knuth 1998, section 6.4).
func (c *scorer) home(feature uint32) uint32 { return feature * 0x9e3779b1 >> c.shift }

// unload takes the query out again.
func (c *scorer) unload(q []term) {
	if c.direct {
		for _, t := range q {
			c.dense[t.feature] = 0
		}
		return
	}
	clear(c.table)
	clear(c.filter[:])
}

// weight is the value of a feature in the query.
func (c *scorer) weight(feature uint32) float32 {
	if c.direct {
		return c.dense[feature]
	}
	for i := c.home(feature); ; i = (i + 1) & uint32(len(c.table)-1) {
		if e := c.table[i]; e.feature == feature || e.weight == 0 {
			return e.weight
		}
	}
}

// score is the exact score of row i.
func (c *scorer) score(i uint32) float64 {
	lo, hi := c.rows.Ptr[i], c.rows.Ptr[i+1]
	index := c.rows.Index[lo:hi]
	var sum float64
	if c.rows.Value == nil {
		for _, f := range index {
			sum += float64(c.weight(f))
		}
		return sum
	}
	value := c.rows.Value[lo:hi]
	value = value[:len(index)]
	if c.direct {
		dense := c.dense
		for e, f := range index {
			// The product of two float32 is exact in float64, so that fusing it
			// with the addition, as some processors do, changes no bit.
			sum += float64(dense[f]) * float64(value[e])
		}
		return sum
	}
	if cap(c.found) < len(index) {
		c.found = make([]uint32, len(index)+len(index)/2)
	}
	found := c.found[:len(index)]
	n := 0
	for e, f := range index {
		found[n] = uint32(e)
		b := f % filterBits
		n += int(c.filter[b/64] >> (b % 64) & 1)
	}
	for _, e := range found[:n] {
		sum += float64(c.weight(index[e])) * float64(value[e])
	}
	return sum
}

// prefetch asks for row i, to be scored soon.
func (c *scorer) prefetch(i uint32) {
	lo, hi := c.rows.Ptr[i], c.rows.Ptr[i+1]
	if lo == hi {
		return
	}
	n := 4 * int(hi-lo)
	vector.Prefetch(unsafe.Pointer(&c.rows.Index[lo]), n)
	if c.rows.Value != nil {
		vector.Prefetch(unsafe.Pointer(&c.rows.Value[lo]), n)
	}
}

// up and down are x moved outward by a relative part in 10¹²: bounds computed
// in float64 stay bounds after rounding.
func up(x float64) float64   { return x * (1 + 1e-12) }
func down(x float64) float64 { return x * (1 - 1e-12) }

// norm is the length of a row, summed in float64.
func norm(values []float32) float64 {
	var sum float64
	for _, v := range values {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}
