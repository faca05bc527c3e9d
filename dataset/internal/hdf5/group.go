package hdf5

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// object is an object that is still to be looked at.
type object struct {
	name  string
	addr  uint64
	depth int
}

// walk lists the arrays of the file. A list of what is to be done takes the place of recursion.
func (f *File) walk(root uint64) error {
	todo := []object{{addr: root}}
	seen := map[uint64]*Array{} // by address; nil for groups
	names := 0
	for len(todo) > 0 {
		o := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if names++; names > maxObjects {
			return &Error{0, fmt.Sprintf("more than %d objects", maxObjects)}
		}
		if known, ok := seen[o.addr]; ok {
			if known != nil { // by another name
				again := *known
				again.Name = o.name
				f.Arrays = append(f.Arrays, &again)
			}
			continue
		}
		seen[o.addr] = nil
		messages, err := f.header(o.addr)
		if err != nil {
			return err
		}
		links, group, err := f.links(messages)
		switch {
		case err != nil:
			return err
		case group && o.name == "":
			if f.Attributes, err = f.texts(messages); err != nil {
				return err
			}
		case !group:
			a, err := f.array(o.name, messages)
			if err != nil {
				return err
			}
			if seen[o.addr] = a; a != nil {
				f.Arrays = append(f.Arrays, a)
			}
			continue
		}
		for _, l := range links {
			if l.name = strings.TrimPrefix(o.name+"/"+l.name, "/"); o.depth == maxDepth {
				return &Error{f.base + int64(min(o.addr, 1<<62)), "groups are nested too deep"}
			}
			l.depth = o.depth + 1
			todo = append(todo, l)
		}
	}
	slices.SortFunc(f.Arrays, func(a, b *Array) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// links returns the objects of a group, and whether the messages are those of one.
func (f *File) links(messages []message) (links []object, group bool, err error) {
	for _, m := range messages {
		switch m.kind {
		case msgSymbolTable:
			group = true
			tree, heap := m.addr(), m.addr()
			if m.err != nil {
				return nil, true, m.err
			}
			part, err := f.symbols(tree, heap)
			if err != nil {
				return nil, true, err
			}
			links = append(links, part...)
		case msgLink:
			group = true
			l, ok := m.link()
			if m.err != nil {
				return nil, true, m.err
			}
			if ok {
				links = append(links, l)
			}
		case msgLinkInfo:
			group = true
			m.version("link info", 0)
			if m.uint(1)&1 != 0 {
				m.bytes(8)
			}
			heap, names := m.addr(), m.addr()
			if m.err != nil {
				return nil, true, m.err
			}
			if heap == undefined {
				continue
			}
			part, err := f.manyLinks(heap, names)
			if err != nil {
				return nil, true, err
			}
			links = append(links, part...)
		}
	}
	return links, group, nil
}

// manyLinks reads the links of a group that has them in a heap, with a tree of their names.
func (f *File) manyLinks(heap, names uint64) (links []object, err error) {
	h, err := f.heap(heap)
	if err != nil {
		return nil, err
	}
	err = f.tree2(names, func(kind uint64, record cursor) error {
		if kind != linkRecord || len(links) == maxObjects {
			return record.fault("a record of type %d among links, or more than %d", kind, maxObjects)
		}
		record.bytes(4) // hash of the name
		part, err := h.object(record)
		if err != nil {
			return err
		}
		m := message{cursor: part}
		if l, ok := m.link(); ok {
			links = append(links, l)
		}
		return m.err
	})
	return links, err
}

// link reads a link message; false where it leads to no object of this file.
func (m *message) link() (object, bool) {
	m.version("link", 1)
	flags := m.uint(1)
	kind := uint64(0)
	if flags&8 != 0 {
		kind = m.uint(1)
	}
	if flags&4 != 0 {
		m.bytes(8) // order of creation
	}
	if flags&16 != 0 {
		m.bytes(1) // character set
	}
	n := m.uint(1 << (flags & 3))
	name := m.bytes(int(min(n, maxMetadata)))
	if kind != 0 {
		return object{}, false // soft or external
	}
	o := object{name: string(name), addr: m.addr()}
	return o, m.err == nil
}

// symbols reads the links of a group from its tree and its heap of names.
func (f *File) symbols(tree, heap uint64) (links []object, err error) {
	c := f.read(heap, uint64(8+2*f.lengths+f.offsets))
	c.expect("HEAP")
	c.version("heap", 0)
	c.bytes(3)
	size := c.length()
	c.length() // free list
	names := f.read(c.addr(), size)
	if c.err != nil {
		return nil, c.err
	}
	if names.err != nil {
		return nil, names.err
	}
	err = f.tree(tree, 0, f.lengths, func(_ cursor, child uint64) error {
		c := f.read(child, 8)
		c.expect("SNOD")
		c.version("symbol table node", 1)
		c.bytes(1)
		n := c.uint(2)
		if c.err != nil {
			return c.err
		}
		c = f.read(child+8, n*uint64(2*f.offsets+24))
		for range n {
			at := c.uint(f.offsets)
			o := object{addr: c.addr()}
			soft := c.uint(4) == 2
			c.bytes(20)
			if c.err != nil {
				return c.err
			}
			if at >= uint64(len(names.b)) {
				return c.fault("a name at %d of %d bytes", at, len(names.b))
			}
			name, _, ok := bytes.Cut(names.b[at:], []byte{0})
			if !ok {
				return c.fault("a name has no end")
			}
			if o.name = string(name); !soft {
				links = append(links, o)
			}
			if len(links) > maxObjects {
				return c.fault("more than %d objects", maxObjects)
			}
		}
		return c.err
	})
	return links, err
}

// node is a node of a tree that is still to be read.
type node struct {
	addr  uint64
	level uint64
}

// tree calls visit for each entry of the leaves of a B-tree of version 1, in order, with its key and
// child. Levels decrease and no node is visited twice.
func (f *File) tree(root, kind uint64, keySize int, visit func(key cursor, child uint64) error) error {
	const maxLevel = 32
	todo := []node{{root, undefined}}
	seen := map[uint64]bool{}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		c := f.read(at.addr, uint64(8+2*f.offsets))
		c.expect("TREE")
		k, level, n := c.uint(1), c.uint(1), c.uint(2)
		switch isRoot := at.level == undefined; {
		case c.err != nil:
			return c.err
		case seen[at.addr] || k != kind || level > maxLevel || !isRoot && (level != at.level || n == 0):
			return c.fault("a node of a tree does not fit its parent")
		}
		seen[at.addr] = true
		c = f.read(at.addr+uint64(8+2*f.offsets), n*uint64(keySize+f.offsets)+uint64(keySize))
		var children []node
		for range n {
			key := c.part(keySize)
			child := c.addr()
			if c.err != nil {
				return c.err
			}
			if level > 0 {
				children = append(children, node{child, level - 1})
			} else if err := visit(key, child); err != nil {
				return err
			}
		}
		slices.Reverse(children)
		todo = append(todo, children...)
	}
	return nil
}
