package forest

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// A segment's count is 16 bits, so a leaf that holds all 65,536 labels of a
// high half needs two segments with the same high half.
const segmentMax = 1<<16 - 1

// leafWriter packs leaf blocks into chunks.
type leafWriter struct {
	chunks [][]byte
	dir    []uint32

	labels  []uint32 // reused by addTable
	weights []uint8
}

// addTable appends the label table of the next leaf, with the
// number of its points: ascending labels and the votes of each.
func (w *leafWriter) addTable(points uint32, labels, votes []uint32) {
	w.labels, w.weights = w.labels[:0], w.weights[:0]
	for i, n := range votes {
		for ; n > maxWeight; n -= maxWeight {
			w.labels, w.weights = append(w.labels, labels[i]), append(w.weights, maxWeight)
		}
		w.labels, w.weights = append(w.labels, labels[i]), append(w.weights, uint8(n))
	}
	if w.weights == nil {
		w.weights = []uint8{}
	}
	w.add(points, w.labels, w.weights)
}

// addMembers appends the member list of the next leaf: ascending rows.
func (w *leafWriter) addMembers(rows []uint32) { w.add(uint32(len(rows)), rows, nil) }

// add appends the block of the next leaf. weights is nil for member lists. A
// block longer than a chunk gets a chunk of its own.
func (w *leafWriter) add(points uint32, labels []uint32, weights []uint8) {
	type segment struct{ lo, hi int }
	var segs []segment
	size := leafHeader
	for lo := 0; lo < len(labels); {
		hi := lo + 1
		for hi < len(labels) && labels[hi]>>16 == labels[lo]>>16 && hi-lo < segmentMax {
			hi++
		}
		segs = append(segs, segment{lo, hi})
		size += segmentBytes(hi-lo, weights != nil)
		lo = hi
	}
	size = (size + leafAlign - 1) &^ (leafAlign - 1)
	last := len(w.chunks) - 1
	if last < 0 || len(w.chunks[last])+size > chunkBytes {
		w.chunks = append(w.chunks, make([]byte, 0, max(size, min(chunkBytes, 1<<16))))
		last++
	}
	at := len(w.chunks[last])
	w.dir = append(w.dir, uint32(last)<<16|uint32(at/leafAlign))
	b := w.chunks[last]
	b = binary.LittleEndian.AppendUint16(b, uint16(len(segs)))
	flags := uint16(0)
	if weights != nil {
		flags = flagWeights
	}
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = binary.LittleEndian.AppendUint32(b, points)
	for _, s := range segs {
		b = binary.LittleEndian.AppendUint16(b, uint16(labels[s.lo]>>16))
		b = binary.LittleEndian.AppendUint16(b, uint16(s.hi-s.lo))
		for _, l := range labels[s.lo:s.hi] {
			b = binary.LittleEndian.AppendUint16(b, uint16(l))
		}
		if weights != nil {
			b = append(b, weights[s.lo:s.hi]...)
			if (s.hi-s.lo)%2 == 1 {
				b = append(b, 0)
			}
		}
	}
	for len(b) < at+size {
		b = append(b, 0)
	}
	w.chunks[last] = b
}

// maxChunks is the number of chunks that the upper half of a directory entry can
// address.
const maxChunks = 1 << 16

// merge joins the leaves of several trees, tree by tree, into one directory.
func merge(parts []leafWriter) (chunks [][]byte, dir []uint32, err error) {
	for _, p := range parts {
		if len(chunks)+len(p.chunks) > maxChunks {
			return nil, nil, fmt.Errorf("%w: leaf tables of more than %d blocks", ErrParams, maxChunks)
		}
		base := uint32(len(chunks)) << 16
		chunks = append(chunks, p.chunks...)
		for _, at := range p.dir {
			dir = append(dir, at+base)
		}
	}
	return chunks, dir, nil
}

// voteCounter counts the labels of one leaf at a time. Two levels of bitmaps mark the
// labels with votes: reading them in ascending order costs less than sorting the
// labels.
type voteCounter struct {
	counts []uint32
	some   []uint64 // one bit per label
	blocks []uint64 // one bit per word of some
}

func newVoteCounter(labels int) *voteCounter {
	words := (labels + 63) / 64
	return &voteCounter{make([]uint32, labels), make([]uint64, words), make([]uint64, (words+63)/64)}
}

func (v *voteCounter) add(labels []uint32) {
	for _, l := range labels {
		v.counts[l]++
		v.some[l/64] |= 1 << (l % 64)
		v.blocks[l/4096] |= 1 << (l / 64 % 64)
	}
}

// drain appends the labels with votes, ascending, and their counts, and empties the counter.
func (v *voteCounter) drain(labels, counts []uint32) ([]uint32, []uint32) {
	for i, block := range v.blocks {
		v.blocks[i] = 0
		for ; block != 0; block &= block - 1 {
			at := i*64 + bits.TrailingZeros64(block)
			word := v.some[at]
			v.some[at] = 0
			for ; word != 0; word &= word - 1 {
				l := uint32(at*64 + bits.TrailingZeros64(word))
				labels = append(labels, l)
				counts = append(counts, v.counts[l])
				v.counts[l] = 0
			}
		}
	}
	return labels, counts
}
