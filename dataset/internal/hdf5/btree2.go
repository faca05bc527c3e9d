package hdf5

import "math/bits"

// Types of records of B-trees of version 2.
const (
	linkRecord     = 5  // the hash of a name, and where in a heap the link is
	chunkRecord    = 10 // the place of a chunk
	filteredRecord = 11 // the same of a chunk with filters
)

// tree2 is a B-tree of version 2. Its records are in all nodes.
type tree2 struct {
	*File
	kind   uint64 // type of the records
	record int    // bytes of one
	count  int    // bytes of the number of records of a child
	totals []int  // by level: bytes of the number of records below a node
}

// node2 is a node of a tree2 that is still to be read.
type node2 struct {
	addr, records uint64
	level         int
}

// tree2 calls visit for each record of a B-tree of version 2, in no particular order. Levels decrease and
// no node is visited twice.
func (f *File) tree2(addr uint64, visit func(kind uint64, record cursor) error) error {
	c := f.checked(addr, uint64(22+f.offsets+f.lengths), "BTHD")
	c.version("B-tree", 0)
	t := &tree2{File: f, kind: c.uint(1)}
	size := c.uint(4)
	t.record = int(c.uint(2))
	depth := int(c.uint(2))
	c.bytes(2) // when nodes are split and merged
	root := node2{c.addr(), c.uint(2), depth}
	if left := c.length(); c.err != nil || left == 0 {
		return c.err
	}
	if depth > 16 || t.record == 0 || !t.sizes(size, depth) {
		return c.fault("a B-tree of %d levels with records of %d bytes in nodes of %d", depth, t.record, size)
	}
	seen := map[uint64]bool{}
	for todo := []node2{root}; len(todo) > 0; {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[n.addr] {
			return c.fault("a B-tree has the node at %d twice", n.addr)
		}
		seen[n.addr] = true
		children, err := t.node(n, visit)
		if err != nil {
			return err
		}
		todo = append(todo, children...)
	}
	return nil
}

// sizes determines the bytes of the numbers of records; false if a node of some bytes holds too few.
func (t *tree2) sizes(node uint64, depth int) bool {
	const prefix = 10 // signature, version, type, checksum
	if node < prefix+uint64(t.record) {
		return false
	}
	record := uint64(t.record)
	total := (node - prefix) / record // the most that are below a node
	t.count, t.totals = bytesFor(total), []int{0}
	for level := 1; level <= depth; level++ {
		pointer := uint64(t.offsets + t.count + t.totals[level-1])
		if node < prefix+2*pointer+record {
			return false
		}
		most := (node - prefix - pointer) / (record + pointer)
		hi, below := bits.Mul64(most+1, total)
		if hi != 0 || below > 1<<62 {
			return false
		}
		total = below + most
		t.totals = append(t.totals, bytesFor(total))
	}
	return true
}

// bytesFor is the number of bytes in which the library writes numbers up to a limit.
func bytesFor(limit uint64) int { return (max(1, bits.Len64(limit))-1)/8 + 1 }

// node reads a node and returns its children.
func (t *tree2) node(n node2, visit func(kind uint64, record cursor) error) (children []node2, err error) {
	sign, size := "BTLF", n.records*uint64(t.record)+10
	pointer := 0
	if n.level > 0 {
		pointer = t.offsets + t.count + t.totals[n.level-1]
		sign, size = "BTIN", size+(n.records+1)*uint64(pointer)
	}
	c := t.checked(n.addr, size, sign)
	c.version("node of a B-tree", 0)
	if kind := c.uint(1); c.err == nil && kind != t.kind {
		return nil, c.fault("a node of a B-tree of type %d in one of type %d", kind, t.kind)
	}
	for range n.records {
		record := c.part(t.record)
		if c.err != nil {
			return nil, c.err
		}
		if err := visit(t.kind, record); err != nil {
			return nil, err
		}
	}
	for i := uint64(0); n.level > 0 && i <= n.records && c.err == nil; i++ {
		child := node2{c.addr(), c.uint(t.count), n.level - 1}
		c.bytes(t.totals[n.level-1])
		children = append(children, child)
	}
	return children, c.err
}
