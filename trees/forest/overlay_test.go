package forest

import (
	"errors"
	"slices"
	"testing"
)

// gained returns a copy of the forest with an overlay of two more points and rows.
func gained(t *testing.T, f *Forest) *Forest {
	t.Helper()
	g := *f
	g.CorpusN += 2
	leaves := make([]uint32, g.Trees)
	var gains Gains
	for i := range uint32(2) {
		x := []float32{float32(i), 1, 0, 2}
		g.Route(g.Coordinates(x, nil), leaves)
		for tree, leaf := range leaves {
			slot := uint32(tree)<<g.Depth + leaf
			gains.Points = append(gains.Points, slot)
			gains.Labels = append(gains.Labels, Gain{slot, uint32(f.CorpusN) + i}, Gain{slot, 3})
			gains.Members = append(gains.Members, Gain{slot, uint32(f.CorpusN) + i})
		}
	}
	var err error
	if g.Overlay, err = g.AddGains(gains); err != nil {
		t.Fatal(err)
	}
	return &g
}

func TestValidateOverlayRefuses(t *testing.T) {
	kd := examples(t)[1]
	if !kd.Natural || !kd.Params.Members {
		t.Fatal("the example has no label tables, or no member lists")
	}
	first := func(dir []uint32) int {
		return slices.IndexFunc(dir, func(at uint32) bool { return at != NoBlock })
	}
	// points returns the low byte of the first table's number of points.
	points := func(o *Overlay) *byte {
		at := o.Dir[first(o.Dir)]
		return &o.Blocks[at>>16][int(at&0xffff)*leafAlign+4]
	}
	for name, damage := range map[string]func(f *Forest, o *Overlay){
		"more points":            func(_ *Forest, o *Overlay) { o.Points++ },
		"fewer points":           func(_ *Forest, o *Overlay) { o.Points-- },
		"negative points":        func(_ *Forest, o *Overlay) { o.Points = -2 },
		"points without tables":  func(_ *Forest, o *Overlay) { o.Dir, o.Blocks = nil, nil },
		"size higher":            func(_ *Forest, o *Overlay) { *points(o)++ },
		"size lower":             func(_ *Forest, o *Overlay) { *points(o)-- },
		"directory cut":          func(_ *Forest, o *Overlay) { o.Dir = o.Dir[1:] },
		"directory missing":      func(_ *Forest, o *Overlay) { o.Dir = nil },
		"blocks missing":         func(_ *Forest, o *Overlay) { o.Blocks = nil },
		"a table left out":       func(_ *Forest, o *Overlay) { o.Dir[first(o.Dir)] = NoBlock },
		"one table for two":      func(_ *Forest, o *Overlay) { n := first(o.Dir); o.Dir[n+1] = o.Dir[n] },
		"tables out of order":    func(_ *Forest, o *Overlay) { slices.Reverse(o.Dir) },
		"offset past the end":    func(_ *Forest, o *Overlay) { o.Dir[first(o.Dir)] |= 0xfffe },
		"chunk missing":          func(_ *Forest, o *Overlay) { o.Dir[first(o.Dir)] |= 1 << 16 },
		"label of no row":        func(f *Forest, _ *Overlay) { f.CorpusN-- },
		"members as tables":      func(_ *Forest, o *Overlay) { o.Dir, o.Blocks = o.MemberDir, o.MemberBlocks },
		"tables as members":      func(_ *Forest, o *Overlay) { o.MemberDir, o.MemberBlocks = o.Dir, o.Blocks },
		"member directory cut":   func(_ *Forest, o *Overlay) { o.MemberDir = o.MemberDir[1:] },
		"member blocks missing":  func(_ *Forest, o *Overlay) { o.MemberBlocks = nil },
		"no member directory":    func(_ *Forest, o *Overlay) { o.MemberDir = nil },
		"members' chunk missing": func(_ *Forest, o *Overlay) { o.MemberDir[first(o.MemberDir)] |= 1 << 16 },
		"more votes than points": func(f *Forest, o *Overlay) {
			// The last weight of the table's last segment.
			slot := first(o.Dir)
			b, _ := f.OverlayLeaf(true, slot>>f.Depth, slot&(1<<f.Depth-1))
			var last []uint8
			for _, _, weights, ok := b.Next(); ok; _, _, weights, ok = b.Next() {
				last = weights
			}
			last[len(last)-1] = 200
		},
	} {
		f := gained(t, kd)
		must(t, f.ValidateOverlay())
		damage(f, f.Overlay)
		if err := f.ValidateOverlay(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestWithin(t *testing.T) {
	for most := int64(1); most < 400; most++ {
		for w := range 256 {
			want := w >= 1 && int64(w) <= most
			if got := within([]uint8{1, uint8(w)}, most); got != want {
				t.Fatalf("weight %d of at most %d: %v", w, most, got)
			}
		}
	}
}
