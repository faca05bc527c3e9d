package forest

import (
	"cmp"
	"fmt"
	"slices"
)

// Overlay is what leaves have gained since a forest was grown: label tables
// beside those of Leaves, whose votes are added to theirs, and members beside
// those of Members. So a few rows can be folded into a forest at a cost that
// follows their number (DESIGN section 10).
type Overlay struct {
	// Dir and Blocks are as LeafDir and Leaves, but a leaf without a block has
	// NoBlock in the directory. Either both or none is set; so with MemberDir
	// and MemberBlocks.
	Dir          []uint32
	Blocks       [][]byte
	MemberDir    []uint32
	MemberBlocks [][]byte
}

// NoBlock stands in an overlay's directory for a leaf that has gained nothing.
const NoBlock = 1<<32 - 1

// Gain is a label, or a member, that a leaf gains.
type Gain struct {
	Slot  uint32 // tree << Depth + leaf
	Label uint32
}

// OverlayLeaf is the label table, or the list of members, that a leaf of tree t
// has gained; ok is false if it has none.
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

// AddGains makes an overlay of what the forest's own one holds, if any, and
// further gains, in any order: one vote each. A member is
// listed once. Votes beyond 255 a leaf are lost. The slices given are
// sorted in place. O(size of the result, and sorting the gains).
//
// Errors: ErrParams for a gain of a leaf that does not exist, for a forest of
// proportions, whose leaves do not say what a point more would change, and for
// tables that cannot be addressed.
func (f *Forest) AddGains(labels, members []Gain) (*Overlay, error) {
	if len(labels) > 0 && f.Unit == 255 {
		return nil, fmt.Errorf("%w: a forest of proportions cannot gain labels", ErrParams)
	}
	out := &Overlay{}
	var err error
	if f.Natural {
		if out.Dir, out.Blocks, err = f.addGains(true, labels); err != nil {
			return nil, err
		}
	}
	if f.Params.Members {
		out.MemberDir, out.MemberBlocks, err = f.addGains(false, members)
	}
	return out, err
}

func (f *Forest) addGains(natural bool, gains []Gain) (dir []uint32, blocks [][]byte, err error) {
	slots := f.Trees << f.Depth
	slices.SortFunc(gains, func(a, b Gain) int {
		return cmp.Compare(uint64(a.Slot)<<32|uint64(a.Label), uint64(b.Slot)<<32|uint64(b.Label))
	})
	if n := len(gains); n > 0 && int(gains[n-1].Slot) >= slots {
		return nil, nil, fmt.Errorf("%w: leaf %d of %d gains a label", ErrParams, gains[n-1].Slot, slots)
	}
	var w leafWriter
	dir = make([]uint32, slots)
	var ids []uint32
	var votes []uint8
	add := func(label uint32, n int) {
		if last := len(ids) - 1; last >= 0 && ids[last] == label {
			votes[last] = uint8(min(255, int(votes[last])+n))
			return
		}
		ids = append(ids, label)
		votes = append(votes, uint8(n))
	}
	for slot := range slots {
		ids, votes = ids[:0], votes[:0]
		n := 0
		for n < len(gains) && gains[n].Slot == uint32(slot) {
			n++
		}
		mine := gains[:n]
		gains = gains[n:]
		if old, ok := f.OverlayLeaf(natural, slot>>f.Depth, slot&(1<<f.Depth-1)); ok {
			for {
				hi, low, weights, ok := old.Next()
				if !ok {
					break
				}
				for i, l := range low {
					label := hi<<16 | uint32(l)
					for len(mine) > 0 && mine[0].Label < label {
						add(mine[0].Label, 1)
						mine = mine[1:]
					}
					had := 1
					if weights != nil {
						had = int(weights[i])
					}
					add(label, had)
				}
			}
		}
		for _, g := range mine {
			add(g.Label, 1)
		}
		if len(ids) == 0 {
			dir[slot] = NoBlock
			continue
		}
		if natural {
			w.add(ids, votes)
		} else {
			w.add(ids, nil)
		}
		dir[slot] = w.dir[len(w.dir)-1]
	}
	// The last number of a block is not a place: NoBlock must stay what it is.
	if len(w.chunks) >= maxChunks {
		return nil, nil, fmt.Errorf("%w: overlay of more than %d blocks", ErrParams, maxChunks)
	}
	return dir, w.chunks, nil
}

// ValidateOverlay checks the overlay as Validate checks the rest. O(its size).
func (f *Forest) ValidateOverlay() error {
	o := f.Overlay
	if o == nil {
		return nil
	}
	slots := f.Trees << f.Depth
	check := func(dir []uint32, blocks [][]byte, weights bool) error {
		if dir == nil && blocks == nil {
			return nil
		}
		if len(dir) != slots {
			return fmt.Errorf("%w: %d leaves in the overlay's directory, want %d", ErrInvalid, len(dir), slots)
		}
		held := make([]uint32, 0, len(dir))
		for _, at := range dir {
			if at != NoBlock {
				held = append(held, at)
			}
		}
		return validateLeaves(blocks, held, len(held), f.CorpusN, weights)
	}
	if err := check(o.Dir, o.Blocks, true); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	if err := check(o.MemberDir, o.MemberBlocks, false); err != nil {
		return fmt.Errorf("overlay of members: %w", err)
	}
	return nil
}
