package hdf5

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// object is an object that is still to be looked at.
type object struct {
	name  string
	addr  uint64
	depth int
	soft  bool // a link by name, which is not followed
}

// walk lists the arrays of the file. A list of what is to be done takes the place of recursion. What
// cannot be read, but for the root, is an array that says so: the others can be read all the same.
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
		if o.soft {
			a := &Array{Name: o.name, file: f, other: true}
			a.unsupported("it is a soft link, which is not followed: name what it leads to")
			f.Arrays = append(f.Arrays, a)
			continue
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
		var links []object
		group := false
		if err == nil {
			links, group, err = f.links(messages)
		}
		if o.name == "" {
			if err == nil && group {
				f.Attributes, err = f.texts(messages)
			}
			if err != nil {
				return err
			}
		}
		if !group || err != nil {
			a, err := f.damagedOr(o, messages, err)
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
				return &Error{int64(min(o.addr, 1<<62)), "groups are nested too deep"}
			}
			l.depth = o.depth + 1
			todo = append(todo, l)
		}
	}
	slices.SortFunc(f.Arrays, func(a, b *Array) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// damagedOr makes an array of an object; one that cannot be read if its messages are damaged. It returns
// the errors of the file underneath.
func (f *File) damagedOr(o object, messages []message, err error) (a *Array, _ error) {
	if err == nil {
		if a, err = f.array(o.name, messages); err == nil {
			return a, nil
		}
	}
	fault := (*Error)(nil)
	if !errors.As(err, &fault) {
		return nil, err
	}
	a = &Array{Name: o.name, file: f}
	a.layout.at = fault.Offset
	a.unsupported("%s", fault.Text)
	return a, nil
}

// links returns the objects of a group, and whether the messages are those of one.
func (f *File) links(messages []message) (links []object, group bool, err error) {
	for _, m := range messages {
		switch m.kind {
		case msgSymbolTable:
			group = true
			tree, heap := m.uint(8), m.uint(8)
			if m.err != nil {
				return nil, true, m.err
			}
			part, err := f.symbols(tree, heap)
			if err != nil {
				return nil, true, err
			}
			links = append(links, part...)
		case msgLink, msgLinkInfo:
			return nil, true, m.fault("a group of links that are ordered or external, "+
				"and only groups by symbol tables are read (%s)", copyArray)
		}
	}
	return links, group, nil
}

// symbols reads the links of a group from its tree and its heap of names.
func (f *File) symbols(tree, heap uint64) (links []object, err error) {
	c := f.read(heap, uint64(32))
	c.expect("HEAP")
	c.version("heap", 0)
	c.bytes(3)
	size := c.uint(8)
	c.uint(8) // free list
	names := f.read(c.uint(8), size)
	if c.err != nil {
		return nil, c.err
	}
	if names.err != nil {
		return nil, names.err
	}
	err = f.tree(tree, 0, 8, func(_ cursor, child uint64) error {
		c := f.read(child, 8)
		c.expect("SNOD")
		c.version("symbol table node", 1)
		c.bytes(1)
		n := c.uint(2)
		if c.err != nil {
			return c.err
		}
		c = f.read(child+8, n*uint64(40))
		for range n {
			at := c.uint(8)
			o := object{addr: c.uint(8), soft: c.uint(4) == 2}
			c.bytes(20)
			o.name = c.textAt(names.b, at)
			if c.err != nil {
				return c.err
			}
			links = append(links, o)
			if len(links) > maxObjects {
				return c.fault("more than %d objects", maxObjects)
			}
		}
		return c.err
	})
	return links, err
}

// textAt returns the text at a place of a heap.
func (c *cursor) textAt(heap []byte, at uint64) string {
	if c.err == nil && at >= uint64(len(heap)) {
		c.err = c.fault("a name at %d of %d bytes", at, len(heap))
	}
	if c.err != nil {
		return ""
	}
	name, _, ok := bytes.Cut(heap[at:], []byte{0})
	if !ok {
		c.err = c.fault("a name has no end")
	}
	return string(name)
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
		c := f.read(at.addr, uint64(24))
		c.expect("TREE")
		k, level, n := c.uint(1), c.uint(1), c.uint(2)
		switch isRoot := at.level == undefined; {
		case c.err != nil:
			return c.err
		case seen[at.addr] || k != kind || level > maxLevel || !isRoot && (level != at.level || n == 0):
			return c.fault("a node of a tree does not fit its parent")
		}
		seen[at.addr] = true
		c = f.read(at.addr+uint64(24), n*uint64(keySize+8)+uint64(keySize))
		var children []node
		for range n {
			key := c.part(keySize)
			child := c.uint(8)
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
