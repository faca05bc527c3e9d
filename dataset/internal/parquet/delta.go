package parquet

import (
	"errors"
	"fmt"
)

// maxDeltas bounds the numbers of a page in deltas: a few bytes can promise any number of them.
const maxDeltas = 1 << 24

// deltas decodes DELTA_BINARY_PACKED: the first number, and then blocks of differences, each with the
// smallest one and the others packed in miniblocks.
type deltas struct {
	r       thriftReader
	minis   int // of a block
	perMini int // differences of a miniblock
	left    int // numbers
	started bool
	value   int64
	least   int64
	widths  []byte // of the miniblocks still to come in the block
	packed  []byte // the present miniblock
	width   int
	inMini  int // differences left in it
	bit     int
}

func newDeltas(b []byte) (*deltas, error) {
	d := &deltas{r: thriftReader{b: b}}
	size, minis, count := d.r.varint(), d.r.varint(), d.r.varint()
	d.value = d.r.zigzag()
	switch {
	case d.r.err != nil:
		return nil, errShort
	case minis < 1 || minis > 1<<10 || size < 1 || size > 1<<20 || size%minis != 0 || size/minis%8 != 0,
		count > maxDeltas:
		return nil, fmt.Errorf("%d numbers in blocks of %d and %d parts", count, size, minis)
	}
	d.minis, d.perMini, d.left = int(minis), int(size/minis), int(count)
	return d, nil
}

func (d *deltas) number() (int64, error) {
	if d.left == 0 {
		return 0, errShort
	}
	d.left--
	if !d.started {
		d.started = true
		return d.value, nil
	}
	if d.inMini == 0 {
		if err := d.mini(); err != nil {
			return 0, err
		}
	}
	d.inMini--
	if (d.bit+d.width+7)/8 > len(d.packed) {
		return 0, errShort
	}
	var v uint64
	for i := range d.width { // a bit at a time: the numbers are few
		at := d.bit + i
		v |= uint64(d.packed[at/8]>>(at%8)&1) << i
	}
	d.bit += d.width
	d.value += d.least + int64(v)
	return d.value, nil
}

// mini begins the next miniblock.
func (d *deltas) mini() error {
	if len(d.widths) == 0 {
		d.least = d.r.zigzag()
		d.widths = d.r.bytes(uint64(d.minis))
	}
	if d.r.err != nil || len(d.widths) == 0 {
		return errShort
	}
	d.width, d.widths = int(d.widths[0]), d.widths[1:]
	if d.width > 64 {
		return fmt.Errorf("numbers of %d bits", d.width)
	}
	room := len(d.r.b) - d.r.pos
	d.packed = d.r.bytes(uint64(min(room, d.perMini*d.width/8)))
	d.inMini, d.bit = d.perMini, 0
	return nil
}

func (d *deltas) next() (Value, error) {
	v, err := d.number()
	return Value{Bits: uint64(v)}, err
}

// rest reads all numbers and returns the bytes behind them.
func (d *deltas) rest() ([]byte, error) {
	for d.left > 0 {
		if _, err := d.number(); err != nil {
			return nil, err
		}
	}
	return d.r.b[d.r.pos:], nil
}

// texts decodes DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY: lengths as deltas, then the texts, in the
// latter case without what they share with the text before.
type texts struct {
	shared  *deltas // nil: nothing
	lengths *deltas
	b       []byte
	last    []byte
}

func newTexts(b []byte, prefixed bool) (*texts, error) {
	t := &texts{}
	var err error
	for _, list := range []**deltas{&t.shared, &t.lengths} {
		if list == &t.shared && !prefixed {
			continue
		}
		if *list, err = newDeltas(b); err != nil {
			return nil, err
		}
		end := **list
		if b, err = end.rest(); err != nil {
			return nil, err
		}
	}
	t.b = b
	return t, nil
}

func (t *texts) next() (Value, error) {
	n, err := t.lengths.number()
	if err != nil {
		return Value{}, err
	}
	if n < 0 || n > int64(len(t.b)) {
		return Value{}, errShort
	}
	text := t.b[:n:n]
	t.b = t.b[n:]
	if t.shared != nil {
		k, err := t.shared.number()
		if err != nil {
			return Value{}, err
		}
		if k < 0 || k > int64(len(t.last)) || k+n > maxText {
			return Value{}, errors.New("a text shares more than there is with the one before")
		}
		text = append(t.last[:k:k], text...)
		t.last = text
	}
	return Value{Bytes: text}, nil
}

// maxText bounds a text that is made of parts, which could grow with each.
const maxText = 64 << 20
