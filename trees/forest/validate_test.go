package forest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/codec"
)

// stored is a forest as it comes from disk: scalars and byte arrays.
type stored struct {
	trees, depth, dim, corpusN, width int
	coord                             uint8 // 0 axis, 1 projected, 2 directions
	natural, members                  bool
	points                            int
	nodes, ptr, idx, val              []byte
	dirIdx, dirVal                    []byte
	leafDir, leaves0, leaves1         []byte
	memberDir, members0, members1     []byte
}

var coords = []string{CoordAxis, CoordProjected, CoordDirections}

func view[T codec.Number](b []byte) []T {
	var zero T
	v, err := codec.View[T](b, len(b)/binary.Size(zero))
	if err != nil {
		panic(err)
	}
	return v
}

func (s stored) forest() *Forest {
	f := &Forest{
		Params: Params{Trees: s.trees, Depth: s.depth, Natural: s.natural, Members: s.members},
		Dim:    s.dim, CorpusN: s.corpusN, Coord: "unknown", Points: s.points,
		Proj:   Sparse{Ptr: view[uint32](s.ptr), Idx: view[uint32](s.idx), Val: view[float32](s.val)},
		DirIdx: view[uint32](s.dirIdx), DirVal: view[float32](s.dirVal), DirWidth: s.width,
		LeafDir: view[uint32](s.leafDir), Leaves: [][]byte{s.leaves0, s.leaves1},
		MemberDir: view[uint32](s.memberDir), Members: [][]byte{s.members0, s.members1},
	}
	if int(s.coord) < len(coords) {
		f.Coord = coords[s.coord]
	}
	for b := s.nodes; len(b) >= 8; b = b[8:] {
		f.Nodes = append(f.Nodes, Node{
			Threshold: math.Float32frombits(binary.LittleEndian.Uint32(b)),
			Dim:       binary.LittleEndian.Uint32(b[4:]),
		})
	}
	return f
}

// store is the inverse, for forests of at most two chunks of leaves.
func store(f *Forest) stored {
	s := stored{
		trees: f.Trees, depth: f.Depth, dim: f.Dim, corpusN: f.CorpusN, width: f.DirWidth,
		coord: uint8(slices.Index(coords, f.Coord)), natural: f.Natural, members: f.Params.Members,
		points: f.Points,
		ptr:    codec.Bytes(f.Proj.Ptr), idx: codec.Bytes(f.Proj.Idx), val: codec.Bytes(f.Proj.Val),
		dirIdx: codec.Bytes(f.DirIdx), dirVal: codec.Bytes(f.DirVal),
		leafDir: codec.Bytes(f.LeafDir), memberDir: codec.Bytes(f.MemberDir),
	}
	for _, n := range f.Nodes {
		s.nodes = binary.LittleEndian.AppendUint32(s.nodes, math.Float32bits(n.Threshold))
		s.nodes = binary.LittleEndian.AppendUint32(s.nodes, n.Dim)
	}
	for i, dst := range []*[]byte{&s.leaves0, &s.leaves1} {
		if i < len(f.Leaves) {
			*dst = f.Leaves[i]
		}
	}
	for i, dst := range []*[]byte{&s.members0, &s.members1} {
		if i < len(f.Members) {
			*dst = f.Members[i]
		}
	}
	return s
}

// walk calls all methods of a valid forest. It fails, by a panic or by t, on an access
// out of bounds.
func walk(t *testing.T, f *Forest) {
	leaves := func(weighted bool, leaf func(tree, leaf int) LeafBlock) {
		for tree := range f.Trees {
			for l := range 1 << f.Depth {
				for _, e := range entries(t, leaf(tree, l), weighted) {
					if int(e.label) >= f.CorpusN {
						t.Fatalf("label %d of a corpus of %d", e.label, f.CorpusN)
					}
				}
				// Vote counters end at the block of 65,536 rows that holds the
				// last one; every segment must have its place.
				b := leaf(tree, l)
				for hi, low, _, ok := b.Next(); ok; hi, low, _, ok = b.Next() {
					if len(low) == 0 || int(hi) > (f.CorpusN-1)>>16 {
						t.Fatalf("segment %d of %d labels in a corpus of %d", hi, len(low), f.CorpusN)
					}
				}
			}
		}
	}
	if f.Natural {
		leaves(true, f.Leaf)
	}
	if f.Params.Members {
		leaves(false, f.MemberLeaf)
	}
	if f.Dim > 1<<16 {
		return // only the vectors would be large
	}
	var s MultiScratch
	out := make([]uint32, f.Trees)
	for _, v := range []float32{0, 1, -1e30, float32(math.NaN())} {
		x := make([]float32, f.Dim)
		for j := range x {
			x[j] = v * float32(j%3)
		}
		z := f.Coordinates(x, nil)
		f.Route(z, out)
		for tree, leaf := range out {
			if int(leaf) >= 1<<f.Depth || int(leaf) != f.routeOne(tree, x) {
				t.Fatalf("tree %d: leaf %d, alone %d", tree, leaf, f.routeOne(tree, x))
			}
		}
		for _, l := range f.RouteMulti(z, f.Trees, 50, &s) {
			if int(l.Tree) >= f.Trees || int(l.Leaf) >= 1<<f.Depth {
				t.Fatalf("leaf %v", l)
			}
		}
	}
}

const examplePoints = 30

// examples are small forests of every kind.
func examples(t testing.TB) []*Forest {
	rows := gaussian(newRand(20), examplePoints, 4)
	lab := labelled(rows, 3)
	var all []*Forest
	for _, kind := range kinds {
		p := Params{Kind: kind, Trees: 2, Depth: 2, Natural: true, Members: true, Density: 0.5}
		all = append(all, learn(t, rows, lab, p))
	}
	return all
}

func TestStoredForestsAreValid(t *testing.T) {
	for _, f := range examples(t) {
		g := store(f).forest()
		must(t, g.Validate())
		walk(t, g)
	}
}

// leafBlock packs segments of (hi, labels) with weight 1 each, of a leaf of all
// points.
func leafBlock(weights uint16, segments ...[]uint16) []byte {
	b := leafFrame(len(segments), weights, examplePoints)
	for _, s := range segments {
		b = binary.LittleEndian.AppendUint16(b, s[0])
		b = binary.LittleEndian.AppendUint16(b, uint16(len(s)-1))
		for _, l := range s[1:] {
			b = binary.LittleEndian.AppendUint16(b, l)
		}
		if weights == flagWeights {
			b = append(b, bytes.Repeat([]byte{1}, len(s)&^1)...)
		}
	}
	return append(b, make([]byte, -len(b)&15)...)
}

// leafFrame is the head of a leaf block.
func leafFrame(segments int, flags uint16, points uint32) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(segments))
	b = binary.LittleEndian.AppendUint16(b, flags)
	return binary.LittleEndian.AppendUint32(b, points)
}

// leafOf is a block of one segment of label 7 and more bytes.
func leafOf(points uint32, more ...byte) []byte {
	b := append(leafFrame(1, flagWeights, points), 0, 0)
	b = append(b, more...)
	return append(b, make([]byte, -len(b)&15)...)
}

func TestValidateRefuses(t *testing.T) {
	all := examples(t)
	rp, kd, pca := all[0], all[1], all[3]
	nan := float32(math.NaN())
	// oneBlock lets the first leaf's table be b and every other one empty, with the
	// points of the other tree in its first leaf.
	oneBlock := func(f *Forest, b []byte) {
		f.CorpusN = 3 << 16
		for i := range f.LeafDir {
			f.LeafDir[i] = 1<<16 | uint32(i)
		}
		f.LeafDir[0] = 0
		var rest []byte
		for i := range f.LeafDir {
			points := uint32(0)
			if i == 1<<f.Depth {
				points = examplePoints
			}
			rest = append(append(rest, leafFrame(0, flagWeights, points)...), make([]byte, leafAlign-leafHeader)...)
		}
		f.Leaves = [][]byte{b, rest}
	}
	for name, c := range map[string]struct {
		base   *Forest
		damage func(*Forest)
	}{
		"no trees":              {kd, func(f *Forest) { f.Trees = 0 }},
		"negative trees":        {kd, func(f *Forest) { f.Trees = -1 }},
		"more trees":            {kd, func(f *Forest) { f.Trees = 3 }},
		"too many trees":        {kd, func(f *Forest) { f.Trees = maxTrees + 1 }},
		"no depth":              {kd, func(f *Forest) { f.Depth = 0 }},
		"negative depth":        {kd, func(f *Forest) { f.Depth = -1 }},
		"too deep":              {kd, func(f *Forest) { f.Depth = maxDepth + 1 }},
		"shape of as many":      {kd, func(f *Forest) { f.Trees, f.Depth = 4, 1; f.Dim = 0 }},
		"fewer coordinates":     {kd, func(f *Forest) { f.Dim = 1 }},
		"negative corpus":       {kd, func(f *Forest) { f.CorpusN = -1 }},
		"smaller corpus":        {kd, func(f *Forest) { f.CorpusN = 29 }},
		"unknown coordinates":   {kd, func(f *Forest) { f.Coord = "polar" }},
		"axis as projected":     {kd, func(f *Forest) { f.Coord = CoordProjected }},
		"axis as directions":    {kd, func(f *Forest) { f.Coord = CoordDirections }},
		"no tables":             {kd, func(f *Forest) { f.Natural, f.Params.Members = false, false }},
		"no points":             {kd, func(f *Forest) { f.Points = 0 }},
		"more points":           {kd, func(f *Forest) { f.Points++ }},
		"a node less":           {kd, func(f *Forest) { f.Nodes = f.Nodes[1:] }},
		"node's coordinate":     {kd, func(f *Forest) { f.Nodes[3].Dim = 4 }},
		"node's threshold":      {kd, func(f *Forest) { f.Nodes[3].Threshold = nan }},
		"projection missing":    {rp, func(f *Forest) { f.Nodes[3].Dim = 4 }},
		"no pointers":           {rp, func(f *Forest) { f.Proj.Ptr = nil }},
		"pointers from 1":       {rp, func(f *Forest) { f.Proj.Ptr[0] = 1 }},
		"falling pointers":      {rp, func(f *Forest) { f.Proj.Ptr[2] = f.Proj.Ptr[1] - 1 }},
		"pointers past the end": {rp, func(f *Forest) { f.Proj.Ptr[4]++ }},
		"pointer out and back":  {rp, func(f *Forest) { f.Proj.Ptr[2] = 1 << 30 }},
		"projected column":      {rp, func(f *Forest) { f.Proj.Idx[0] = 4 }},
		"a value less":          {rp, func(f *Forest) { f.Proj.Val = f.Proj.Val[1:] }},
		"direction's column":    {pca, func(f *Forest) { f.DirIdx[5] = 4 }},
		"direction cut":         {pca, func(f *Forest) { f.DirVal = f.DirVal[1:] }},
		"no width":              {pca, func(f *Forest) { f.DirWidth = 0 }},
		"width wraps":           {pca, func(f *Forest) { f.Dim, f.DirWidth, f.DirIdx, f.DirVal = 1<<62, 1<<61, nil, nil }},
		"directory cut":         {kd, func(f *Forest) { f.LeafDir = f.LeafDir[1:] }},
		"members cut":           {kd, func(f *Forest) { f.MemberDir = f.MemberDir[1:] }},
		"chunk missing":         {kd, func(f *Forest) { f.LeafDir[7] += 1 << 16 }},
		"offset past the end":   {kd, func(f *Forest) { f.LeafDir[7] |= 0xffff }},
		"member chunk missing":  {kd, func(f *Forest) { f.Members = nil }},
		"one leaf for two":      {kd, func(f *Forest) { f.LeafDir[1] = f.LeafDir[0] }},
		"leaves out of order":   {kd, func(f *Forest) { slices.Reverse(f.LeafDir) }},
		"chunks out of order": {kd, func(f *Forest) {
			oneBlock(f, leafBlock(flagWeights))
			f.LeafDir[1], f.LeafDir[0] = f.LeafDir[0], f.LeafDir[1]
		}},
		"leaves overlap":    {kd, func(f *Forest) { f.LeafDir[1]-- }},
		"members as tables": {kd, func(f *Forest) { f.Leaves, f.LeafDir = f.Members, f.MemberDir }},
		"tables as members": {kd, func(f *Forest) { f.Members, f.MemberDir = f.Leaves, f.LeafDir }},
		// A second segment that reads as a block of no segments.
		"leaf within a leaf": {kd, func(f *Forest) {
			oneBlock(f, leafBlock(flagWeights, []uint16{0, 5}, []uint16{0, 6}))
			f.LeafDir[1] = 1
		}},
		"header cut":    {kd, func(f *Forest) { oneBlock(f, leafBlock(flagWeights)[:7]) }},
		"segment cut":   {kd, func(f *Forest) { oneBlock(f, leafFrame(1, flagWeights, examplePoints)) }},
		"labels cut":    {kd, func(f *Forest) { oneBlock(f, append(leafFrame(1, flagWeights, examplePoints), 0, 0, 2, 0, 1, 0, 2)) }},
		"weights cut":   {kd, func(f *Forest) { oneBlock(f, append(leafFrame(1, flagWeights, examplePoints), 0, 0, 1, 0, 1, 0, 2)) }},
		"empty segment": {kd, func(f *Forest) { oneBlock(f, leafBlock(flagWeights, []uint16{9})) }},
		"label beyond":  {kd, func(f *Forest) { oneBlock(f, leafBlock(flagWeights, []uint16{3, 0})) }},
		"labels fall":   {kd, func(f *Forest) { oneBlock(f, leafBlock(flagWeights, []uint16{0, 2, 1})) }},
		"label twice":   {kd, func(f *Forest) { oneBlock(f, leafBlock(flagWeights, []uint16{0, 2, 2})) }},
		"segments fall": {kd, func(f *Forest) { oneBlock(f, leafBlock(flagWeights, []uint16{1, 2}, []uint16{0, 3})) }},
		"no votes":      {kd, func(f *Forest) { oneBlock(f, leafOf(examplePoints, 1, 0, 7, 0, 0, 0)) }},
		"more votes than points": {kd, func(f *Forest) {
			oneBlock(f, leafOf(examplePoints, 1, 0, 7, 0, examplePoints+1, 0))
		}},
		"more votes in two entries": {kd, func(f *Forest) {
			f.Points = 300
			oneBlock(f, leafOf(300, 2, 0, 7, 0, 7, 0, 255, 46))
			f.Leaves[1][4*16+4], f.Leaves[1][4*16+5] = 300&255, 300>>8
		}},
		"entries after the last": {kd, func(f *Forest) {
			f.Points = 300
			oneBlock(f, leafOf(300, 2, 0, 7, 0, 7, 0, 100, 100))
			f.Leaves[1][4*16+4], f.Leaves[1][4*16+5] = 300&255, 300>>8
		}},
		"points in another leaf": {kd, func(f *Forest) {
			oneBlock(f, leafBlock(flagWeights))
			f.Leaves[1][16+4]++
		}},
		"members miscounted": {kd, func(f *Forest) {
			f.Members = [][]byte{slices.Clone(f.Members[0])}
			f.Members[0][4]++
		}},
		"label in two segments": {kd, func(f *Forest) { oneBlock(f, leafBlock(flagWeights, []uint16{1, 2}, []uint16{1, 2})) }},
	} {
		f := store(c.base).forest()
		// The views alias the examples: damage a copy.
		f.Proj.Ptr, f.Proj.Idx = slices.Clone(f.Proj.Ptr), slices.Clone(f.Proj.Idx)
		f.DirIdx = slices.Clone(f.DirIdx)
		f.LeafDir, f.MemberDir = slices.Clone(f.LeafDir), slices.Clone(f.MemberDir)
		c.damage(f)
		if err := f.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	// The frame of the damaged blocks is valid.
	f := store(kd).forest()
	f.LeafDir = slices.Clone(f.LeafDir)
	oneBlock(f, leafBlock(flagWeights, []uint16{0, 1, 5}, []uint16{1, 2}, []uint16{1, 3}, []uint16{2, 0}))
	must(t, f.Validate())
	walk(t, f)
	f.Points = 300
	oneBlock(f, leafOf(300, 2, 0, 7, 0, 7, 0, 255, 45))
	f.Leaves[1][4*16+4], f.Leaves[1][4*16+5] = 300&255, 300>>8
	must(t, f.Validate())
	walk(t, f)
}

// FuzzValidate checks that a forest of arbitrary bytes is rejected or safe to use.
func FuzzValidate(f *testing.F) {
	for _, e := range examples(f) {
		s := store(e)
		f.Add(s.trees, s.depth, s.dim, s.corpusN, s.width, s.coord, s.natural, s.members, s.points,
			s.nodes, s.ptr, s.idx, s.val, s.dirIdx, s.dirVal,
			s.leafDir, s.leaves0, s.leaves1, s.memberDir, s.members0, s.members1)
	}
	f.Fuzz(func(t *testing.T, trees, depth, dim, corpusN, width int, coord uint8, natural, members bool, points int,
		nodes, ptr, idx, val, dirIdx, dirVal, leafDir, leaves0, leaves1, memberDir, members0, members1 []byte) {
		g := stored{trees, depth, dim, corpusN, width, coord, natural, members, points,
			nodes, ptr, idx, val, dirIdx, dirVal, leafDir, leaves0, leaves1, memberDir, members0, members1}.forest()
		err := g.Validate()
		switch {
		case err == nil:
			walk(t, g)
		case !errors.Is(err, ErrInvalid):
			t.Fatalf("untyped error %v", err)
		}
	})
}

// Any ascending labels come back as they went in, from blocks that begin at
// multiples of 16 and stay inside their chunks.
func TestLeafWriterRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weighted := rapid.Bool().Draw(t, "weighted")
		var w leafWriter
		var want [][]entry
		points := 0
		for range rapid.IntRange(1, 8).Draw(t, "leaves") {
			rng := newRand(rapid.Uint64().Draw(t, "seed"))
			// The steps between labels decide how many share a segment.
			step := rapid.SampledFrom([]uint32{1, 1, 7, 5000, 1 << 20}).Draw(t, "step")
			n := rapid.SampledFrom([]int{0, 1, 2, 33, 1000, 70_000}).Draw(t, "labels")
			most := rapid.SampledFrom([]uint32{3, 255, 256, 510, 511, 1000}).Draw(t, "votes")
			var ids, votes []uint32
			list, at := []entry{}, uint64(rng.Uint32()>>rng.IntN(32))
			for range n {
				if at >= 1<<32 {
					break
				}
				e := entry{label: uint32(at)}
				if weighted {
					e.votes = 1 + rng.Uint32N(most)
				}
				list, ids, votes = append(list, e), append(ids, e.label), append(votes, e.votes)
				at += 1 + uint64(rng.Uint32N(step))
			}
			if weighted {
				w.addTable(1000, ids, votes)
				points += 1000
			} else {
				w.addMembers(ids)
			}
			want = append(want, list)
		}
		for i, at := range w.dir {
			if got := entries(t, block(w.chunks, at), weighted); !slices.Equal(got, want[i]) {
				t.Fatalf("leaf %d: %d labels, want %d", i, len(got), len(want[i]))
			}
		}
		for i, c := range w.chunks {
			if len(c)%leafAlign != 0 || len(c) > chunkBytes {
				t.Fatalf("chunk %d has %d bytes", i, len(c))
			}
		}
		must(t, validTables(w, points, 1<<32, weighted))
	})
}

// validTables validates what a writer has written as trees of one leaf less one.
func validTables(w leafWriter, points, corpusN int, weighted bool) error {
	for i := range w.dir {
		set := leafSet{
			chunks: w.chunks, dir: w.dir[i : i+1], trees: 1, corpusN: corpusN, weights: weighted,
			points: points / len(w.dir),
		}
		if err := set.validate(); err != nil {
			return err
		}
	}
	return nil
}

// All 65,536 labels of a high half do not fit the count of one segment, and a
// leaf of very many labels does not fit a chunk of the usual size.
func TestLeafWriterLimits(t *testing.T) {
	const n = 700_000
	ids, votes := make([]uint32, n), make([]uint32, n)
	for i := range ids {
		ids[i], votes[i] = uint32(i), 1
	}
	var w leafWriter
	w.addTable(1, ids[:10], votes[:10])
	w.addTable(1, ids, votes)
	w.addTable(1, ids[:10], votes[:10])
	if len(w.chunks) != 3 {
		t.Fatalf("%d chunks", len(w.chunks))
	}
	for i, want := range []int{10, n, 10} {
		if got := entries(t, block(w.chunks, w.dir[i]), true); len(got) != want {
			t.Fatalf("leaf %d: %d labels, want %d", i, len(got), want)
		}
	}
	must(t, validTables(w, 3, n, true))
	// Leaves of 608 bytes: the directory has room for the offsets of no more
	// than a chunk holds.
	w = leafWriter{}
	for i := range 4000 {
		w.addTable(1, ids[i:i+198], votes[:198])
	}
	for i, at := range w.dir {
		if got := entries(t, block(w.chunks, at), true); len(got) != 198 || int(got[0].label) != i {
			t.Fatalf("leaf %d: %d labels from %v", i, len(got), got[0])
		}
	}
	if per := chunkBytes / 608; len(w.chunks) != (4000+per-1)/per {
		t.Fatalf("%d chunks of %d leaves", len(w.chunks), per)
	}
}

// The directory numbers 65,536 chunks; one more is an error, not another leaf.
func TestMergeLimits(t *testing.T) {
	full := leafWriter{chunks: make([][]byte, maxChunks-1), dir: []uint32{5}}
	one := leafWriter{chunks: make([][]byte, 1), dir: []uint32{7}}
	chunks, dir, err := merge([]leafWriter{full, one})
	if err != nil || len(chunks) != maxChunks || !slices.Equal(dir, []uint32{5, (maxChunks-1)<<16 | 7}) {
		t.Fatalf("%d chunks, directory %v, error %v", len(chunks), dir, err)
	}
	if _, _, err := merge([]leafWriter{full, one, one}); !errors.Is(err, ErrParams) {
		t.Fatalf("error %v", err)
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
