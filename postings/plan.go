package postings

import "github.com/anndb/anndb/vector"

// Costs of the strategies in nanoseconds, as far as the planner needs them. They were measured
// with queries that are training rows held out of the index (sweep -train), on collections that
// fit the caches and on some that do not.
const (
	unionRow    = 400 // a row of Union, scored from memory not in cache
	wandEntry   = 60  // an entry of a DAAT list that Weak-AND does not skip
	searchStart = 6000
	searchRow   = 0.15 // a row of the other strategies, without its postings
	listEntry   = 0.5
	columnCell  = 0.06
	farAway     = 1.5 // factor if the structure does not fit the cache
	cacheBytes  = 16 << 20
	rowsEntry   = 2.2  // an entry in a pass over the rows, for batchWidth queries
	rowsDecode  = 3    // added for decoding an entry of a Source
	rowsRow     = 20   // a row of such a pass
	rowsQuery   = 2300 // added by picking for a query of such a pass, and
	rowsHit     = 35   // for each requested hit
	// sharePays is the share of the cost of separate searches below which a pass is chosen:
	// both costs are estimates.
	sharePays = 0.8
	// shareSample: one query of shareSample is examined for that decision.
	shareSample = 4
)

// plan chooses a strategy by the query and the lengths of its lists. Union and Partitioned read
// only the lists, all others also take time for every row: Union or Partitioned is chosen if
// that time alone exceeds its cost. Partitioned is faster than Union where most of the rows are
// in DAAT lists, since Weak-AND scores only rows that may be hits. Otherwise plan chooses the
// compact structure, or Partitioned without one.
func (ix *Index) plan(q []term) Strategy {
	setUp := ix.rowsCost()
	listed := 0
	for _, t := range q {
		if listed += ix.listLength(t.feature); unionRow*float64(listed) > setUp {
			break
		}
	}
	union := unionRow * float64(listed)
	if ix.Partition != nil && ix.partitionedPays(q, min(union, setUp)) {
		return Partitioned
	}
	switch {
	case union <= setUp:
		return Union
	case ix.Weighted != nil || ix.Uniform != nil:
		return Compact
	}
	return Partitioned
}

// rowsCost returns the cost of a strategy with a cell for every row, without its postings.
func (ix *Index) rowsCost() float64 { return searchStart + searchRow*float64(ix.Len()) }

// partitionedPays reports whether Partitioned costs less than the given time, with
// a union of the TAAT lists.
func (ix *Index) partitionedPays(q []term, limit float64) bool {
	p := ix.Partition
	cost, at, ok := 0.0, 0, false
	for _, t := range q {
		if at, ok = p.find(t.feature, at); ok {
			cost += unionRow*float64(p.TAAT.size(at)) + wandEntry*float64(p.DAAT.size(at))
		}
		if cost >= limit {
			return false
		}
	}
	return true
}

// listLength returns the number of rows that Union would mark for a feature.
func (ix *Index) listLength(f uint32) int {
	n := ix.Len()
	var b *Blocks
	switch {
	case ix.Weighted != nil:
		if _, ok := ix.Weighted.find(f); ok {
			return n
		}
		b = &ix.Weighted.Blocks
	case ix.Uniform != nil:
		if _, ok := ix.Uniform.find(f); ok {
			return n
		}
		b = &ix.Uniform.Blocks
	case ix.Partition != nil:
		i, ok := ix.Partition.find(f, 0)
		if !ok {
			return 0
		}
		return ix.Partition.TAAT.size(i) + ix.Partition.DAAT.size(i)
	default:
		return n
	}
	s := b.span(f)
	if n > windowRows {
		return int(b.Start[s.hi] - b.Start[s.lo])
	}
	return int(s.hi - s.lo)
}

// canShare reports whether queries from to to can be estimated together, in a pass over the
// rows.
func (ix *Index) canShare(queries *vector.CSR, from, to int) bool {
	return ix.Used == nil && (ix.Source != nil || ix.Rows.Value != nil) && ix.Unit > 0 &&
		queries.Ptr[to]-queries.Ptr[from] < batchSlots-1
}

// share reports whether they should be: whether a pass costs less than their lists and columns.
// Counting bit by bit is cheaper than either.
func (ix *Index) share(queries *vector.CSR, from, to, k int) bool {
	if ix.Weighted == nil {
		return false
	}
	perEntry := rowsEntry
	if ix.Source != nil {
		perEntry += rowsDecode
	}
	pass := perEntry*float64(ix.entries()) + rowsRow*float64(ix.Len()) +
		float64(to-from)*(rowsQuery+rowsHit*float64(k))
	var apart float64
	looked := 0
	for q := from; q < to; q += shareSample {
		looked++
		for _, f := range queries.Index[queries.Ptr[q]:queries.Ptr[q+1]] {
			if int(f) >= ix.Features() {
				continue
			}
			if _, ok := ix.Weighted.find(f); ok {
				apart += columnCell * float64(ix.Len())
			} else {
				apart += listEntry * float64(ix.listLength(f))
			}
		}
	}
	apart *= float64(to-from) / float64(looked)
	if ix.Bytes() > cacheBytes {
		apart *= farAway
	}
	apart += float64(to-from) * (searchStart + searchRow*float64(ix.Len()))
	return pass < sharePays*apart
}
