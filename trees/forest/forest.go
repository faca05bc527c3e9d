package forest

import (
	"encoding/binary"
	"errors"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/labels"
)

// Errors of the package; they are wrapped with the reason.
var (
	// ErrParams is returned by Learn for parameters or inputs it cannot use.
	ErrParams = errors.New("forest: bad parameters")
	// ErrInvalid is returned by Validate for inconsistent arrays.
	ErrInvalid = errors.New("forest: invalid structure")
)

// Kind is a learner: the method by which the nodes of a tree choose their splits.
type Kind string

// The learners (docs/ARCHITECTURE.md, section 7; Hyvönen 2022, section 8).
const (
	// RP splits at the median along sparse Gaussian directions, one shared by
	// a level of a tree (Hyvönen 2016).
	RP Kind = "rp"
	// KD splits at the median of a coordinate drawn from those of highest
	// variance (Silpa-Anan 2008).
	KD Kind = "kd"
	// KDChrono splits at the median of coordinate depth mod d (Bentley 1975;
	// Hyvönen 2022, section 7.2).
	KDChrono Kind = "kd-chrono"
	// PCATree splits at the median along an approximate first principal
	// direction of a random subset of coordinates (Jääsaari 2019).
	PCATree Kind = "pca"
	// RF splits at the largest gain of the multinomial log-likelihood of the labels
	// under the pick-all-labels reduction (Hyvönen 2022, sections 2.2 and 8).
	RF Kind = "rf"
)

// Params are the parameters of a forest. Zero selects the default of a field.
type Params struct {
	Kind    Kind
	Trees   int // number of trees, at least 1
	Depth   int // levels of splits: 2^Depth leaves per tree
	LabelsK int // labels used of each training point; all if zero
	Seed    uint64
	// Density is the share of non-zero coordinates of a split direction (rp,
	// pca). Default 1/√d.
	Density float64
	// Candidates is the number of coordinates that compete in a split. Default 5
	// for kd, √d for rf.
	Candidates int
	// Subsample is the number of a node's points that the choice of the split
	// uses. Default 101 for the variances of kd, 100 for rf.
	Subsample int
	// Members also stores the corpus rows in each leaf, for lookup and voting
	// (equations 7 and 9).
	Members bool
	// Natural stores the leaf label-proportion tables (equation 4); it is the
	// default if both are false.
	Natural bool
	// Corpus is the corpus in the trees' coordinates if the training points are a
	// separate query set; only Members needs it.
	Corpus labels.Rows `json:"-"`
}

// Node is an inner node: a vector goes left if its coordinate Dim is at most
// Threshold. A node that could not be split has Threshold +Inf, so that all go left.
type Node struct {
	Threshold float32
	Dim       uint32
}

// Sparse is a matrix in compressed row format: row i has the entries Ptr[i] to
// Ptr[i+1]-1.
type Sparse struct {
	Ptr []uint32
	Idx []uint32
	Val []float32
}

// The coordinates that nodes compare.
const (
	// CoordAxis: Node.Dim is an input coordinate.
	CoordAxis = "axis"
	// CoordProjected: Node.Dim is a row of Proj (tree·Depth + level).
	CoordProjected = "projected"
	// CoordDirections: every node has its own sparse direction.
	CoordDirections = "directions"
)

// Forest is an ensemble of complete binary trees in flat arrays, which may be
// views over mapped memory. Every tree has 2^Depth leaves. Nodes are stored in heap
// order: node 1 is the root, and Nodes[t<<Depth+i] is node i of tree t.
type Forest struct {
	Params
	Dim     int // input coordinates
	CorpusN int // labels are row numbers below this
	Coord   string
	Nodes   []Node
	Proj    Sparse

	DirIdx   []uint32 // node (t<<Depth+i) has entries from (t<<Depth+i)*DirWidth
	DirVal   []float32
	DirWidth int

	// LeafDir and MemberDir have the position of every leaf's block: chunk<<16 |
	// offset/16. A block is contained in one chunk.
	LeafDir   []uint32
	Leaves    [][]byte
	MemberDir []uint32
	Members   [][]byte

	// Points is the number of training points that the trees were grown from: the
	// sum of the Points of a tree's leaves.
	Points int
}

// MeanLeaf returns the mean number of training points in a leaf.
func (f *Forest) MeanLeaf() float64 { return float64(f.Points) / float64(int(1)<<f.Depth) }

const (
	leafAlign   = 16
	leafHeader  = 8
	chunkBytes  = 1<<20 - 64
	flagWeights = 1
	// maxWeight is the largest number of votes of an entry. A label with more votes
	// has several entries.
	maxWeight = 255
)

// LeafBlock iterates over the labels of a leaf without copying. The layout is
// in codec/FORMAT.md.
type LeafBlock struct {
	rest     []byte
	segments int
	points   uint32
	weights  bool
}

// Points returns the number of training points in the leaf, N_q(x) of equation 4: the
// votes of a label divided by it are the label's proportion. For a member list it
// returns the number of rows.
func (b *LeafBlock) Points() uint32 { return b.points }

// Leaf returns the label table of a leaf of tree t. Natural must be set.
func (f *Forest) Leaf(t, leaf int) LeafBlock {
	return block(f.Leaves, f.LeafDir[t<<f.Depth+leaf])
}

// MemberLeaf returns the list of corpus rows in a leaf of tree t. Members must be set.
func (f *Forest) MemberLeaf(t, leaf int) LeafBlock {
	return block(f.Members, f.MemberDir[t<<f.Depth+leaf])
}

func from(chunks [][]byte, at uint32) []byte { return chunks[at>>16][int(at&0xffff)*leafAlign:] }

func block(chunks [][]byte, at uint32) LeafBlock {
	b := from(chunks, at)
	return LeafBlock{
		rest:     b[leafHeader:],
		segments: int(binary.LittleEndian.Uint16(b)),
		points:   binary.LittleEndian.Uint32(b[4:]),
		weights:  binary.LittleEndian.Uint16(b[2:])&flagWeights != 0,
	}
}

// segmentBytes returns the length of a segment of n labels.
func segmentBytes(n int, weights bool) int {
	size := 4 + 2*n
	if weights {
		size += (n + 1) &^ 1
	}
	return size
}

// Next returns the next segment: the labels are hi<<16 + low[i], ascending, with
// weights[i] votes each (nil for member lists). A label with more than 255 votes has
// several consecutive entries. ok is false at the end.
func (b *LeafBlock) Next() (hi uint32, low []uint16, weights []uint8, ok bool) {
	if b.segments == 0 || len(b.rest) < 4 {
		return 0, nil, nil, false
	}
	b.segments--
	hi = uint32(binary.LittleEndian.Uint16(b.rest))
	n := int(binary.LittleEndian.Uint16(b.rest[2:]))
	size := segmentBytes(n, b.weights)
	if size > len(b.rest) {
		return 0, nil, nil, false
	}
	low, err := codec.View[uint16](b.rest[4:], n)
	if err != nil {
		return 0, nil, nil, false
	}
	if b.weights {
		weights = b.rest[4+2*n : 4+3*n : 4+3*n]
	}
	b.rest = b.rest[size:]
	return hi, low, weights, true
}
