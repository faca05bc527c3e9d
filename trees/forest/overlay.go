package forest

import (
	"cmp"
	"fmt"
	"slices"
)

// Overlay holds the additions to leaves since a forest was grown: label tables, whose
// votes and points are added to those of Leaves, and members in addition to those of
// Members. So the cost of inserting a few rows into a forest is proportional to their
// number (docs/ARCHITECTURE.md, section 10).
type Overlay struct {
	// Dir and Blocks are like LeafDir and Leaves, but a leaf without a block has
	// NoBlock in the directory. Either both are set or neither is; the same holds
	// for MemberDir and MemberBlocks.
	Dir          []uint32
	Blocks       [][]byte
	MemberDir    []uint32
	MemberBlocks [][]byte
	// Points is the number of training points added to every tree.
	Points int
}

// NoBlock is the directory entry of a leaf without additions in an overlay.
const NoBlock = 1<<32 - 1

// Gain is a label, or a member, that is added to a leaf.
type Gain struct {
	Slot  uint32 // tree << Depth + leaf
	Label uint32
}

// Gains are the additions to leaves, in any order.
type Gains struct {
	Labels  []Gain // one vote each
	Members []Gain // a member is listed once
	// Points are the slots of the leaves of the new training points: for every
	// point, one slot in each tree.
	Points []uint32
}

// OverlayLeaf returns the label table, or the list of members, that was added to a
// leaf of tree t; ok is false if there is none.
func (f *Forest) OverlayLeaf(natural bool, t, leaf int) (b LeafBlock, ok bool) {
	if f.Overlay == nil {
		return b, false
	}
	dir, blocks := f.Overlay.Dir, f.Overlay.Blocks
	if !natural {
		dir, blocks = f.Overlay.MemberDir, f.Overlay.MemberBlocks
	}
	slot := t<<f.Depth + leaf
	if slot >= len(dir) || dir[slot] == NoBlock {
		return b, false
	}
	return block(blocks, dir[slot]), true
}

// AddGains returns an overlay with the content of the forest's overlay, if any, and
// further gains. It ignores labels in forests without label tables, and members in
// forests without member lists. It sorts the slices of g in place. Cost: O(size of the
// result), and sorting the gains.
//
// Errors: ErrParams for a gain of a leaf that does not exist, for points without
// exactly one leaf in each tree, and for tables that cannot be addressed.
func (f *Forest) AddGains(g Gains) (*Overlay, error) {
	slices.Sort(g.Points)
	if err := f.checkPoints(g.Points); err != nil {
		return nil, err
	}
	out := &Overlay{Points: len(g.Points) / f.Trees}
	if f.Overlay != nil {
		out.Points += f.Overlay.Points
	}
	var err error
	if f.Natural {
		if out.Dir, out.Blocks, err = f.addGains(true, g.Labels, g.Points); err != nil {
			return nil, err
		}
	}
	if f.Params.Members {
		out.MemberDir, out.MemberBlocks, err = f.addGains(false, g.Members, nil)
	}
	return out, err
}

func (f *Forest) addGains(
	natural bool, gains []Gain, points []uint32,
) (dir []uint32, blocks [][]byte, err error) {
	slots := f.Trees << f.Depth
	slices.SortFunc(gains, func(a, b Gain) int {
		return cmp.Compare(uint64(a.Slot)<<32|uint64(a.Label), uint64(b.Slot)<<32|uint64(b.Label))
	})
	if n := len(gains); n > 0 && int(gains[n-1].Slot) >= slots {
		return nil, nil, fmt.Errorf("%w: leaf %d of %d gains a label", ErrParams, gains[n-1].Slot, slots)
	}
	var w leafWriter
	dir = make([]uint32, slots)
	var ids, votes, had, hadVotes []uint32
	for slot := range slots {
		n := 0
		for n < len(gains) && gains[n].Slot == uint32(slot) {
			n++
		}
		more := 0
		for more < len(points) && points[more] == uint32(slot) {
			more++
		}
		held := uint32(more)
		had, hadVotes = had[:0], hadVotes[:0]
		if old, ok := f.OverlayLeaf(natural, slot>>f.Depth, slot&(1<<f.Depth-1)); ok {
			held += old.Points()
			had, hadVotes = old.appendTable(had, hadVotes)
		}
		ids, votes = mergeGains(ids[:0], votes[:0], had, hadVotes, gains[:n])
		gains, points = gains[n:], points[more:]
		switch {
		case len(ids) == 0 && held == 0:
			dir[slot] = NoBlock
			continue
		case natural:
			w.addTable(held, ids, votes)
		default:
			w.addMembers(ids)
		}
		dir[slot] = w.dir[len(w.dir)-1]
	}
	// The last block number is unused, so that no entry equals NoBlock.
	if len(w.chunks) >= maxChunks {
		return nil, nil, fmt.Errorf("%w: overlay of more than %d blocks", ErrParams, maxChunks)
	}
	return dir, w.chunks, nil
}

// checkPoints rejects sorted slots unless every tree has the same number of them.
func (f *Forest) checkPoints(points []uint32) error {
	each := len(points) / f.Trees
	for t := range f.Trees {
		end, _ := slices.BinarySearch(points, uint32(t+1)<<f.Depth)
		if end != (t+1)*each {
			return fmt.Errorf("%w: %d leaves of the first %d trees gain points, want %d",
				ErrParams, end, t+1, (t+1)*each)
		}
	}
	if each*f.Trees != len(points) {
		return fmt.Errorf("%w: %d leaves of %d trees gain points", ErrParams, len(points), f.Trees)
	}
	return nil
}

// mergeGains appends the labels of a table and of gains, both ascending, and the
// sums of their votes.
func mergeGains(ids, votes, had, hadVotes []uint32, gains []Gain) (labels, sums []uint32) {
	for i, label := range had {
		for len(gains) > 0 && gains[0].Label < label {
			ids, votes = appendVotes(ids, votes, gains[0].Label, 1)
			gains = gains[1:]
		}
		ids, votes = appendVotes(ids, votes, label, hadVotes[i])
	}
	for _, g := range gains {
		ids, votes = appendVotes(ids, votes, g.Label, 1)
	}
	return ids, votes
}

// ValidateOverlay checks the overlay as Validate checks the rest of the forest, which
// must be valid. O(size of the overlay).
func (f *Forest) ValidateOverlay() error {
	o := f.Overlay
	if o == nil {
		return nil
	}
	if o.Points < 0 || o.Points > 0 && f.Natural && o.Dir == nil {
		return fmt.Errorf("%w: overlay: %d training points, but no leaf has any", ErrInvalid, o.Points)
	}
	set := leafSet{trees: f.Trees, depth: f.Depth, corpusN: f.CorpusN, gaps: true}
	if o.Dir != nil || o.Blocks != nil {
		tables := set
		tables.chunks, tables.dir, tables.weights, tables.points = o.Blocks, o.Dir, true, o.Points
		if f.Natural {
			tables.under = f
		}
		if err := tables.validate(); err != nil {
			return fmt.Errorf("overlay: %w", err)
		}
	}
	if o.MemberDir != nil || o.MemberBlocks != nil {
		set.chunks, set.dir = o.MemberBlocks, o.MemberDir
		if err := set.validate(); err != nil {
			return fmt.Errorf("overlay of members: %w", err)
		}
	}
	return nil
}
