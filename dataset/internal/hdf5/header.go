package hdf5

// Types of messages in object headers.
const (
	msgDataspace    = 0x01
	msgLinkInfo     = 0x02
	msgDatatype     = 0x03
	msgLink         = 0x06
	msgLayout       = 0x08
	msgFilters      = 0x0b
	msgAttribute    = 0x0c
	msgContinuation = 0x10
	msgSymbolTable  = 0x11

	// maxBlocks and maxMessages bound an object header.
	maxBlocks   = 256
	maxMessages = 1 << 16
)

// message is one message of an object header.
type message struct {
	kind   uint64
	shared bool // the message is elsewhere
	cursor
}

// block is a part of an object header.
type block struct{ addr, size uint64 }

// header reads the messages of an object.
func (f *File) header(addr uint64) ([]message, error) {
	c := f.read(addr, 4)
	if c.err != nil {
		return nil, c.err
	}
	if string(c.b) == "OHDR" {
		return f.header2(addr)
	}
	c = f.read(addr, 16)
	c.version("object header", 1)
	c.bytes(7)
	h := headerReader{file: f, blocks: []block{{addr + 16, c.uint(4)}}}
	if c.err != nil {
		return nil, c.err
	}
	for len(h.blocks) > 0 {
		b := h.next()
		c := f.read(b.addr, b.size)
		for c.err == nil && c.left() >= 8 {
			m := message{kind: c.uint(2)}
			size := int(c.uint(2))
			m.shared = c.uint(1)&2 != 0
			c.bytes(3)
			m.cursor = c.part(size)
			h.add(m)
		}
		if h.failed(&c) {
			return nil, h.err
		}
	}
	return h.messages, nil
}

// header2 reads an object header of version 2.
func (f *File) header2(addr uint64) ([]message, error) {
	c := f.read(addr, min(64, uint64(f.size)-min(uint64(f.size), addr+uint64(f.base))))
	c.expect("OHDR")
	c.version("object header", 2)
	flags := c.uint(1)
	if flags&0x20 != 0 {
		c.bytes(16) // times
	}
	if flags&0x10 != 0 {
		c.bytes(4) // numbers of attributes
	}
	size := c.uint(1 << (flags & 3))
	if c.err != nil {
		return nil, c.err
	}
	if size > maxMetadata {
		return nil, c.fault("object header of %d bytes", size)
	}
	prefix := c.pos
	h := headerReader{file: f, blocks: []block{{addr, uint64(prefix) + size + 4}}}
	for first := true; len(h.blocks) > 0; first = false {
		b := h.next()
		sign, skip := "OCHK", 4
		if first {
			sign, skip = "OHDR", prefix
		}
		c := f.checked(b.addr, b.size, sign)
		c.bytes(skip - 4)
		wide := 4
		if flags&4 != 0 {
			wide += 2 // number in the order of creation
		}
		for c.err == nil && c.left() >= wide {
			m := message{kind: c.uint(1)}
			size := int(c.uint(2))
			m.shared = c.uint(1)&2 != 0
			c.bytes(wide - 4)
			m.cursor = c.part(size)
			h.add(m)
		}
		if h.failed(&c) {
			return nil, h.err
		}
	}
	return h.messages, nil
}

// headerReader collects the messages of an object and follows the blocks that continue it.
type headerReader struct {
	file     *File
	blocks   []block // still to be read
	read     int     // number of blocks read
	messages []message
	err      error
}

func (h *headerReader) next() block {
	b := h.blocks[0]
	h.blocks = h.blocks[1:]
	h.read++
	return b
}

// add adds a message, or the block that continues the header.
func (h *headerReader) add(m message) {
	if m.err != nil || m.kind != msgContinuation {
		h.messages = append(h.messages, m)
		return
	}
	b := block{m.addr(), m.length()}
	if h.err = m.err; h.err == nil {
		h.blocks = append(h.blocks, b)
	}
}

// failed reports whether there was an error.
func (h *headerReader) failed(c *cursor) bool {
	switch {
	case h.err != nil:
	case c.err != nil:
		h.err = c.err
	case h.read+len(h.blocks) > maxBlocks || len(h.messages) > maxMessages:
		h.err = c.fault("object header of more than %d blocks or %d messages", maxBlocks, maxMessages)
	}
	return h.err != nil
}
