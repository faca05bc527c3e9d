package postings

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Uniform is the compact structure for matrices whose rows each hold one value, as binary data
// does after normalisation. For a query of one value the score of a row is its value times the
// number of common features. So lists hold no values, frequent features are bitmaps, and counts
// are added bit by bit, 64 rows per word.
//
// Positions in lists and bitmaps are rows by falling value, so that strips of neighbouring
// positions share one threshold for the count.
type Uniform struct {
	Blocks
	Columns
	Words  []uint64 // column c is Words[c*Stride:(c+1)*Stride]
	Stride int      // 64-bit words per column
	Order  []uint32 // position to row
	// Value is the value of a position's row; it falls with the position.
	Value []float32
}

const (
	// stripRows is the number of positions that the counting kernel handles at once.
	stripRows  = 256
	stripWords = stripRows / 64
	// bitmapShare is the density from which adding a bitmap is faster than
	// counting a list.
	bitmapShare = 1.0 / 256
	// uniformBytes is the maximum mean size of a posting in bytes, uniformList its size in a
	// list.
	uniformBytes = 4.7
	uniformList  = 2
	// countBits is the width of counts: queries too long for it are not counted.
	countBits = 10
)

// isUniform reports whether every row holds one value only.
func isUniform(rows *vector.CSR) bool {
	if rows.Value == nil {
		return true
	}
	for i := range rows.Rows() {
		v := rows.Row(i).Value
		for _, x := range v {
			if x != v[0] {
				return false
			}
		}
	}
	return true
}

// rowValue returns the value of the entries of a row.
func rowValue(rows *vector.CSR, i uint32) float32 {
	if rows.Ptr[i] == rows.Ptr[i+1] {
		return 0
	}
	return valueAt(rows, rows.Ptr[i])
}

func buildUniform(ctx context.Context, rows *vector.CSR) (*Uniform, error) {
	n := rows.Rows()
	strips := roundUp(n, stripRows) / stripRows
	u := &Uniform{Stride: strips * stripWords, Order: make([]uint32, n), Value: make([]float32, n)}
	for i := range u.Order {
		u.Order[i] = uint32(i)
	}
	slices.SortFunc(u.Order, func(a, b uint32) int {
		if c := cmp.Compare(rowValue(rows, b), rowValue(rows, a)); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	length := make([]uint32, rows.Cols)
	for at, row := range u.Order {
		v := rowValue(rows, row)
		u.Value[at] = v
		if v > 0 {
			for _, f := range rows.Row(int(row)).Index {
				length[f]++
			}
		}
	}
	atLeast := columnThreshold(length, n, bitmapShare, columnSizes{
		column: 8 * u.Stride, fixed: 4*rows.Cols + 8*n + storedBytes(rows),
		entry: uniformList, allowed: uniformBytes,
	})
	columns := 0
	u.Columns, columns = makeColumns(rows.Cols, func(j int) bool { return length[j] >= atLeast })
	u.Words = make([]uint64, columns*u.Stride)

	// Positions by feature, ascending: a counting sort.
	start := make([]uint64, rows.Cols+1)
	for j, l := range length {
		start[j+1] = start[j] + uint64(l)
	}
	positions := make([]uint32, start[rows.Cols])
	next := slices.Clone(start[:rows.Cols])
	for at, row := range u.Order {
		if at%cancelEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if rowValue(rows, row) == 0 {
			continue
		}
		for _, f := range rows.Row(int(row)).Index {
			positions[next[f]] = uint32(at)
			next[f]++
		}
	}
	wide := n > windowRows
	for j := range rows.Cols {
		u.begin(wide)
		column, dense := u.find(uint32(j))
		for _, at := range positions[start[j]:start[j+1]] {
			if dense {
				u.Words[column*u.Stride+int(at/64)] |= 1 << (at % 64)
			} else {
				u.add(at, wide)
			}
		}
	}
	u.end(wide)
	return u, nil
}

func (u *Uniform) wide() bool { return len(u.Order) > windowRows }

// positions calls f with the positions of a feature, ascending.
func (u *Uniform) positions(j uint32, f func(at uint32)) (postings, bytes int) {
	if column, ok := u.find(j); ok {
		for i, word := range u.Words[column*u.Stride : (column+1)*u.Stride] {
			for ; word != 0; word &= word - 1 {
				if at := i*64 + bits.TrailingZeros64(word); at < len(u.Order) {
					f(uint32(at))
				}
			}
		}
		return 64 * u.Stride, 8 * u.Stride
	}
	n := u.rows(j, u.wide(), f)
	return n, 2 * n
}

// mark sets the bits of the rows that have a feature.
func (u *Uniform) mark(j uint32, union []uint64) (postings, bytes int) {
	return u.positions(j, func(at uint32) {
		row := u.Order[at]
		union[row/64] |= 1 << (row % 64)
	})
}

// uniform is the scratch memory of searches in a Uniform.
type uniform struct {
	planes  []uint64 // counts from lists: bit b of all positions, then bit b+1
	bitmaps []int    // byte offsets of the query's bitmaps
	spans   []span   // lists of the query
	counted stripCounts
	sample  [sampleStrips]stripCounts
	deepest int // width of the query's counts in bits
	uniformSmall
}

// stripCounts holds the counts of the positions of a strip: word i of bit b is at
// b*stripWords+i.
type stripCounts [countBits * stripWords]uint64

// sampleStrips is the maximum number of strips that are counted before the threshold of a
// search is first set.
const sampleStrips = 32

// reach returns the positions whose count is at least least.
func (c *stripCounts) reach(depth, least int) (hits [stripWords]uint64) {
	w0, w1, w2, w3 := ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)
	for p := range depth {
		b := c[p*stripWords : p*stripWords+stripWords : p*stripWords+stripWords]
		if least>>p&1 != 0 {
			w0, w1, w2, w3 = w0&b[0], w1&b[1], w2&b[2], w3&b[3]
		} else {
			w0, w1, w2, w3 = w0|b[0], w1|b[1], w2|b[2], w3|b[3]
		}
	}
	return [stripWords]uint64{w0, w1, w2, w3}
}

// at returns the count of position bit of word i.
func (c *stripCounts) at(depth, i, bit int) (count int) {
	for p := range depth {
		count |= int(c[p*stripWords+i]>>(bit&63)&1) << p
	}
	return count
}

// searchUniform counts common features. The estimate of a row is the count times its value,
// rounded down to a unit, so its score exceeds the estimate by less than two units; the second
// is for floating-point error.
func (s *Searcher) searchUniform(ctx context.Context, ix *Index) error {
	u := ix.Uniform
	weight := s.terms[0].weight
	for _, t := range s.terms {
		if t.weight != weight {
			return s.sumUniform(ctx, ix)
		}
	}
	n := len(s.terms)
	if n >= 1<<countBits || u.Value[0] == 0 {
		return s.sumUniform(ctx, ix)
	}
	scale := (maxEstimate - 8) / (float64(n) * float64(weight) * float64(u.Value[0]))
	if scale <= 0 || math.IsInf(scale, 0) {
		return s.searchUnion(ctx, ix, allLists)
	}
	perCount := float64(weight) * scale // units per common feature and point of value
	length := queryNorm(s.terms)
	planes, err := s.countLists(ctx, u)
	if err != nil {
		return err
	}
	s.deepest = max(4, bits.Len(uint(n))) // the kernels start at four
	strips := u.Stride / stripWords
	if strips <= smallStrips && s.deepest <= smallBits && s.params.Deleted == nil &&
		s.params.Accept == nil {
		if done, err := s.searchSmall(ctx, ix, planes, weight); done || err != nil {
			return err
		}
	}
	apart := max(1, (strips+sampleStrips-1)/sampleStrips)
	for strip := 0; strip < strips; strip += apart {
		if hits := (&[stripWords]uint64{}); !s.countStrip(u, strip, planes, 1,
			&s.sample[strip/apart], hits) {
			s.sample[strip/apart] = stripCounts{}
		}
	}
	floor := down(s.top.theta()*scale) - 2 // no row below it is needed
	if s.params.Deleted == nil && s.params.Accept == nil {
		floor = max(floor, s.lowestCounts(u, apart, perCount, s.expected(ix, length)*scale)-2)
	}
	for strip := range strips {
		if strip%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		first := strip * stripRows
		unit := perCount * float64(u.Value[first])
		if unit == 0 {
			break // values fall: all other rows have no entries
		}
		floor = max(floor, down(s.top.theta()*scale)-2)
		least := max(1, int(floor/unit+(1-1e-6)))
		if least > n {
			continue
		}
		counted := &s.counted
		var hits [stripWords]uint64
		if strip%apart == 0 {
			counted = &s.sample[strip/apart]
			hits = counted.reach(s.deepest, least)
		} else if !s.countStrip(u, strip, planes, least, counted, &hits) {
			continue
		}
		s.offerCounts(u, counted, first, floor/scale, weight, &hits)
	}
	s.stats.Candidates = s.stats.Scored
	s.learn(ix, length)
	return nil
}

// countStrip counts the common features of the positions of a strip.
func (s *Searcher) countStrip(u *Uniform, strip, planes, least int, counted *stripCounts,
	hits *[stripWords]uint64) bool {
	s.mark(stripRows*len(s.bitmaps), stripRows/8*len(s.bitmaps))
	return countStrip((*[countBits * stripWords]uint64)(counted), hits, s.deepest,
		tail(s.planes, strip*stripWords), planes,
		tail(u.Words, strip*stripWords), s.bitmaps, u.Stride, least)
}

// lowestCounts returns an estimate that k or slightly more rows of the sample reach; zero if
// there are fewer.
func (s *Searcher) lowestCounts(u *Uniform, apart int, perCount, guess float64) float64 {
	limit := float64(int(1) << s.deepest)
	return estimateReached(s.top.k, s.top.k/8+spareHits, guess, func(estimate float64) (n int) {
		for first := 0; first < len(u.Order); first += apart * stripRows {
			// The lowest value of the strip makes the estimates lower bounds.
			unit := perCount * float64(u.Value[min(first+stripRows, len(u.Order))-1])
			count := estimate/unit*(1+1e-9) + 1
			if !(count < limit) {
				continue
			}
			for _, word := range s.sample[first/(apart*stripRows)].reach(s.deepest, int(count)) {
				n += bits.OnesCount64(word)
			}
		}
		return n
	})
}

// offerCounts offers the hits of a strip whose scores may be above least, which includes a
// margin for rounding.
func (s *Searcher) offerCounts(u *Uniform, counted *stripCounts, first int, least float64,
	weight float32, hits *[stripWords]uint64) {
	free := s.params.Deleted == nil && s.params.Accept == nil
	for i, word := range hits {
		for ; word != 0; word &= word - 1 {
			bit := bits.TrailingZeros64(word)
			at := first + i*64 + bit
			if at >= len(u.Order) {
				break
			}
			count := counted.at(s.deepest, i, bit)
			if float64(weight)*float64(u.Value[at])*float64(count) >= least &&
				(free || s.accepted(u.Order[at])) {
				s.stats.Scored++
				s.top.push(Hit{s.base + u.Order[at], uniformScore(weight, u.Value[at], count)})
			}
		}
	}
}

// exactCount is the number of equal products of float32 that add up without rounding: each has
// 48 of the 53 bits.
const exactCount = 32

// uniformScore returns the score of a row with count common features: that many equal products,
// added as vector.DotSparse adds them.
func uniformScore(weight, value float32, count int) float64 {
	product := float64(weight) * float64(value)
	if count <= exactCount {
		return float64(count) * product
	}
	var sum float64
	for range count {
		sum += product
	}
	return sum
}

// countLists counts the lists of the query into s.planes and collects its bitmaps. It returns
// the number of planes in use.
func (s *Searcher) countLists(ctx context.Context, u *Uniform) (planes int, err error) {
	s.bitmaps, s.spans = s.bitmaps[:0], s.spans[:0]
	for _, t := range s.terms {
		if column, ok := u.find(t.feature); ok {
			s.bitmaps = append(s.bitmaps, 8*u.Stride*column)
		} else if sp := u.span(t.feature); sp.lo < sp.hi {
			s.spans = append(s.spans, sp)
		}
	}
	planes = bits.Len(uint(len(s.spans)))
	if need := planes * u.Stride; cap(s.planes) < need {
		s.planes = make([]uint64, need)
	}
	s.planes = s.planes[:planes*u.Stride]
	clear(s.planes)
	wide := u.wide()
	for i, sp := range s.spans {
		if (wide || i%16 == 0) && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		n := 0
		if !wide {
			n = int(sp.hi - sp.lo)
			countList(s.planes, u.Low[sp.lo:sp.hi], u.Stride)
		} else {
			for c := sp.lo; c < sp.hi; c++ {
				low := u.Low[u.Start[c]:u.Start[c+1]]
				n += len(low)
				countList(s.planes[int(u.Key[c])*(windowRows/64):], low, u.Stride)
			}
		}
		s.mark(n, 2*n)
	}
	return planes, nil
}

// tail returns s from i on, or nothing if s ends before.
func tail(s []uint64, i int) []uint64 { return s[min(i, len(s)):] }

// sumUniform searches for queries of several values or of very many features: term at a time
// over lists and bitmaps.
func (s *Searcher) sumUniform(ctx context.Context, ix *Index) error {
	u := ix.Uniform
	n := len(u.Order)
	if cap(s.sums) < n {
		s.sums = make([]float32, n)
	}
	sums := s.sums[:n]
	clear(sums)
	s.loadScorer(ix)
	for _, t := range s.terms {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.mark(u.positions(t.feature, func(at uint32) { sums[at] += t.weight }))
	}
	s.near = s.near[:0]
	var least float32
	limit := max(4*s.top.k, 256)
	for at, sum := range sums {
		row := u.Order[at]
		sum *= u.Value[at]
		if sum < tinySum || sum < least || !s.accepted(row) {
			continue
		}
		s.near = append(s.near, nearRow{row, sum})
		if len(s.near) >= limit {
			least = max(least, s.keepNear())
			limit = max(limit, 2*len(s.near))
		}
	}
	scored := s.stats.Scored
	if !s.scoreNear() {
		return s.searchUnion(ctx, ix, allLists)
	}
	s.stats.Candidates = s.stats.Scored - scored
	return nil
}
