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

// header reads the messages of an object.
func (f *File) header(addr uint64) (messages []message, err error) {
	c := f.read(addr, 16)
	if c.err == nil && string(c.b[:4]) == "OHDR" {
		return nil, c.fault("object header of version 2, and only 1 is read (%s)", repack)
	}
	c.version("object header", 1)
	c.bytes(7)
	type block struct{ addr, size uint64 }
	blocks := []block{{addr + 16, c.uint(4)}}
	if c.err != nil {
		return nil, c.err
	}
	for i := 0; i < len(blocks); i++ { // blocks grows
		c := f.read(blocks[i].addr, blocks[i].size)
		for c.err == nil && c.left() >= 8 {
			m := message{kind: c.uint(2)}
			size := int(c.uint(2))
			m.shared = c.uint(1)&2 != 0
			c.bytes(3)
			m.cursor = c.part(size)
			if m.err == nil && m.kind == msgContinuation {
				blocks = append(blocks, block{m.uint(8), m.uint(8)})
				c.err = m.err
				continue
			}
			messages = append(messages, m)
		}
		if c.err == nil && (len(blocks) > maxBlocks || len(messages) > maxMessages) {
			c.err = c.fault("object header of more than %d blocks or %d messages", maxBlocks, maxMessages)
		}
		if c.err != nil {
			return nil, c.err
		}
	}
	return messages, nil
}
