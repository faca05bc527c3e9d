package query

import (
	"unsafe"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// gather routes the query and elects the candidates. After widening, it uses all trees, more
// leaves (2, 8, 32... per tree) and the lowest threshold.
func (s *Searcher) gather(widened int) []uint32 {
	p, f := s.p, s.seg.Forest
	trees, extra := p.trees(f.Trees), p.Extra
	natural := !p.members()
	if widened > 0 {
		trees = f.Trees
		extra = max(extra, trees<<min(2*widened-1, 20))
	}
	s.find(trees, extra)
	chunks, dir := f.Leaves, f.LeafDir
	if !natural {
		chunks, dir = f.Members, f.MemberDir
	}
	for _, l := range s.route {
		at := dir[int(l.Tree)<<f.Depth+int(l.Leaf)]
		c := chunks[at>>16]
		from := int(at&0xffff) * leafAlign
		vector.Prefetch(unsafe.Pointer(&c[from]), min(leafAhead, len(c)-from))
		if request := s.v.Rows.Request; request != nil {
			request(c[from:min(from+leafAhead, len(c))])
		}
	}
	s.e.reset(s.seg.N)
	for _, l := range s.route {
		s.e.add(l.Tree, leafOf(f, natural, l))
	}
	s.e.ballot = ballot{how: byUnion, threshold: 1}
	switch {
	case widened > 0:
	case p.Method == Natural && p.Tau > 0:
		s.e.weigh(trees, p.Tau)
	case p.Method == Voting:
		s.e.ballot = ballot{how: byVotes, threshold: uint32(min(max(1, p.Votes), 1<<17))}
	}
	s.e.ballot.widened = widened > 0
	s.stats.Leaves += len(s.route)
	s.stats.Labels += s.e.elect()
	s.stats.Candidates = len(s.e.cands)
	return s.e.cands
}

const (
	// leafAlign is the unit of a leaf directory's offsets (codec/FORMAT.md).
	leafAlign = 16
	// leafAhead is the number of bytes of a leaf that are prefetched before the election reads
	// leaves.
	leafAhead = 512
)

// find sets route to the query's leaves: one per tree, then extra more.
func (s *Searcher) find(trees, extra int) {
	f := s.seg.Forest
	if extra > 0 {
		if s.straight != nil {
			s.rotate(s.straight) // many nodes need most coordinates
			s.straight = nil
		}
		s.route = append(s.route[:0], f.RouteMulti(s.z, trees, extra, &s.multi)...)
		return
	}
	s.leaves = grow(s.leaves, trees)
	if s.straight != nil {
		f.RouteRotated(s.v.Rotation, s.straight, s.z, s.leaves)
	} else {
		f.Route(s.z, s.leaves)
	}
	s.route = s.route[:0]
	for t, leaf := range s.leaves {
		s.route = append(s.route, forest.TreeLeaf{Tree: uint32(t), Leaf: leaf})
	}
}

func leafOf(f *forest.Forest, natural bool, l forest.TreeLeaf) forest.LeafBlock {
	if natural {
		return f.Leaf(int(l.Tree), int(l.Leaf))
	}
	return f.MemberLeaf(int(l.Tree), int(l.Leaf))
}

// thin keeps the r rows with the best sketch estimates.
func (s *Searcher) thin(ids []uint32, r int) []uint32 {
	if len(ids) <= r {
		return ids
	}
	s.scores = grow(s.scores, len(ids))
	s.stats.Sketched += len(ids)
	s.estimate(s.seg.Sketch, ids, s.scores)
	return s.pick.best(ids, s.scores, r)
}

// ahead is the number of rows by which prefetching runs ahead.
const ahead = 3

// score computes the exact distances of rows of the segment, whose numbers it replaces by those of the
// collection. If requested, the 8-bit copy selects the rows first.
func (s *Searcher) score(ids []uint32, stage origin) {
	if s.quantised() && len(ids) > s.p.rerank() {
		s.rerank.Reset(s.p.rerank())
		for i, id := range ids {
			s.rerank.Push(id, s.quant.distance(id))
			if i&s.every == s.every && s.halted() {
				return
			}
		}
		s.stats.Filtered += len(ids)
		s.hits = s.rerank.Append(s.hits[:0])
		for i, h := range s.hits {
			ids[i] = h.ID
		}
		ids = ids[:len(s.hits)]
	}
	s.enter(s.numbered(ids), stage)
}

// numbered replaces numbers of rows in the segment by those in the collection.
func (s *Searcher) numbered(ids []uint32) []uint32 {
	if first := uint32(s.seg.First); first > 0 {
		for i := range ids {
			ids[i] += first
		}
	}
	return ids
}

// enter computes exact distances and returns the number of rows that were among the best when they
// were added.
func (s *Searcher) enter(ids []uint32, stage origin) (entered int) {
	return s.enterUntil(ids, stage, nil)
}

// enterUntil is enter up to the row at which order, unless it is nil, ends.
func (s *Searcher) enterUntil(ids []uint32, stage origin, order *beamOrder) (entered int) {
	if request := s.v.Rows.Request; request != nil {
		// All before the first is read, so that the disk reads them together.
		for _, id := range ids {
			request(s.exact.stored(id))
		}
	}
	for _, id := range ids[:min(ahead, len(ids))] {
		s.exact.prefetch(id)
	}
	for i, id := range ids {
		if order != nil && order.ends(id, s.top.Threshold()) {
			ids = ids[:i]
			break
		}
		if i+ahead < len(ids) {
			s.exact.prefetch(ids[i+ahead])
		}
		d := s.exact.distance(id)
		if order != nil {
			order.errors.add(float64(d) - order.estimate)
		}
		if s.keep(id, d) {
			entered++
		}
		if i&s.every == s.every && s.halted() {
			s.stats.Exact += i + 1
			return entered
		}
	}
	s.stats.Exact += len(ids)
	if s.watch != nil {
		s.watch.scored(ids, stage)
	}
	return entered
}

// nextEpoch marks all rows as unseen. It clears the array only once in 32,767 searches.
func (s *Searcher) nextEpoch() {
	if len(s.seen) < s.seg.N {
		s.seen = make([]uint16, s.seg.N)
		s.epoch = 0
	}
	s.epoch += 2
	if s.epoch == 0 {
		clear(s.seen)
		s.epoch = 2
	}
}

// hopOnce adds the labels of the best hits that have not contributed them, the natural
// classifier of the one-point leaf around each, and reports whether any were new.
func (s *Searcher) hopOnce() bool {
	p, nv := s.p, s.seg.Neighbors
	width := nv.K
	if p.HopWidth > 0 {
		width = min(width, p.HopWidth)
	}
	starts := s.starts(p.hopFrom())
	for _, h := range starts {
		list := nv.list(h.ID, width)
		vector.Prefetch(unsafe.Pointer(unsafe.SliceData(list)), 4*len(list))
	}
	s.hop = grow(s.hop, len(starts)*width+1)
	ids, seen, n := s.hop, s.seen, 0
	for _, h := range starts {
		seen[h.ID] = s.epoch + 1
		list := nv.list(h.ID, width)
		if s.watch != nil {
			s.watch.listed(s, h.ID, list)
		}
		for _, id := range list {
			if int(id) >= s.seg.N {
				continue
			}
			// Whether a row is new is unpredictable: avoid the branch.
			was := seen[id]
			seen[id] = max(was, s.epoch)
			ids[n] = id
			n += int((uint32(was) - uint32(s.epoch)) >> 31)
		}
	}
	ids = ids[:n]
	s.stats.Hopped += len(ids)
	ids = s.passing(ids)
	if p.Sketch && s.seg.Sketch != nil && p.HopKeep > 0 {
		ids = s.thin(ids, p.HopKeep)
	}
	s.score(ids, fromHop)
	return len(ids) > 0
}

// starts returns the nearest hits of the segment, by their numbers in it, at most from, that have not
// contributed their list, nearest first. The rows of a hop therefore do not depend on the order within
// a heap.
func (s *Searcher) starts(from int) []vector.Neighbor {
	all := s.top.Peek(s.hits[:0])
	s.hits = all
	n := 0
	for _, h := range all {
		if h.ID -= uint32(s.seg.First); int(h.ID) < s.seg.N && s.seen[h.ID] == s.epoch {
			all[n] = h
			n++
		}
	}
	all = all[:n]
	from = min(from, n)
	for i := range from {
		best := i
		for j := i + 1; j < n; j++ {
			if nearer(all[j], all[best]) {
				best = j
			}
		}
		all[i], all[best] = all[best], all[i]
	}
	return all[:from]
}

func nearer(a, b vector.Neighbor) bool {
	return a.Distance < b.Distance || a.Distance == b.Distance && a.ID < b.ID
}
