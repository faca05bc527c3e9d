package damage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"go.etcd.io/bbolt"
)

// Case is one piece of damage.
type Case struct {
	// How is "flip" for the bit Bit of the byte At, "short" for a file cut to
	// At bytes before it is opened, "cut" for one that is cut so while it is
	// open, after half of the questions.
	How string
	At  int64
	Bit int
	// Region is what At belongs to; Used whether it is in use, so that Check
	// must notice.
	Region string
	Used   bool
}

// String is the case in words.
func (c Case) String() string {
	if c.How == "flip" {
		return fmt.Sprintf("bit %d of byte %d, %s", c.Bit, c.At, c.Region)
	}
	return fmt.Sprintf("%s to %d bytes", c.How, c.At)
}

// flags of bbolt's pages.
const (
	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
)

// Cases lists the damage to every page of a sound file: flips in header,
// element table, keys and values, at least one where a page has them and four
// in all; the file cut short at the page's begin, a byte after it and half-way,
// and at its begin while the file is open.
func Cases(path string, data []byte, seed uint64) (out []Case, pages int, err error) {
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	tx, err := b.Begin(false)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	size := int64(b.Info().PageSize)
	c := &lister{rng: rand.New(rand.NewPCG(seed, 5)), data: data, size: size}
	high := 0
	for high < 2 || int64(high)*size < tx.Size() {
		info, err := tx.Page(high)
		if err != nil {
			return nil, 0, err
		}
		if info == nil {
			break // beyond what is in use
		}
		n := 1 + info.OverflowCount
		switch {
		case info.Type == "free":
			n = 1 // the header is what the page's last use has left
			c.flip("free page", int64(high)*size, int64(high+1)*size, 4, false)
		case info.Type == "meta":
			n = 1
			// Of a page of 16 KiB, these 80 bytes are in use.
			c.flip("meta header", int64(high)*size, int64(high)*size+16, 1, false)
			c.flip("meta body", int64(high)*size+16, int64(high)*size+80, 3, false)
		default:
			c.page(int64(high), int64(n))
		}
		high += n
	}
	for p := range int64(high) {
		for _, at := range []int64{0, 1, size / 2} {
			c.out = append(c.out, Case{How: "short", At: p*size + at, Region: "file cut before opening", Used: true})
		}
		c.out = append(c.out, Case{How: "cut", At: p * size, Region: "file cut while in use", Used: true})
	}
	return c.out, high, nil
}

type lister struct {
	rng  *rand.Rand
	data []byte
	size int64
	out  []Case
}

// flip draws n bits from a range.
func (c *lister) flip(region string, lo, hi int64, n int, used bool) {
	for range n {
		if lo < hi {
			c.out = append(c.out, Case{"flip", lo + c.rng.Int64N(hi-lo), c.rng.IntN(8), region, used})
		}
	}
}

// page lists the damage to a page and those that continue it.
func (c *lister) page(id, run int64) {
	le := binary.LittleEndian
	at := id * c.size
	head := c.data[at:]
	flags, n := le.Uint16(head[8:]), int64(le.Uint16(head[10:]))
	end := at + run*c.size
	// Where keys and values lie, in turn.
	type part struct {
		lo, hi int64
		value  bool
	}
	var parts []part
	kind := "branch"
	switch flags {
	case freelistPage:
		c.flip("freelist header", at, at+16, 1, false)
		c.flip("freelist entries", at+16, at+16+8*n, 3, false)
	case branchPage:
		for i := range n {
			e := at + 16 + 16*i
			lo := e + int64(le.Uint32(c.data[e:]))
			parts = append(parts, part{lo, lo + int64(le.Uint32(c.data[e+4:])), false})
		}
	case leafPage:
		kind = "leaf"
		for i := range n {
			e := at + 16 + 16*i
			k := e + int64(le.Uint32(c.data[e+4:]))
			v := k + int64(le.Uint32(c.data[e+8:]))
			parts = append(parts, part{k, v, false}, part{v, v + int64(le.Uint32(c.data[e+12:])), true})
		}
	}
	if flags != freelistPage {
		c.flip(kind+" header", at, at+12, 1, true) // the rest tells how many pages continue it
		c.flip(kind+" elements", at+16, at+16+16*n, 1, true)
		var keys, values []part
		for _, p := range parts {
			switch {
			case p.lo >= at+c.size: // on pages that continue it, see below
			case p.value:
				values = append(values, p)
			default:
				keys = append(keys, p)
			}
		}
		some := func(region string, of []part, n int, used bool) {
			if len(of) > 0 {
				p := of[c.rng.IntN(len(of))]
				c.flip(region, p.lo, min(p.hi, at+c.size), n, used)
			}
		}
		if len(values) == 0 {
			// What a branch keeps of a key only leads the way: a change that keeps
			// the order may do no harm, and nobody can see it then.
			some(kind+" keys", keys, 2, false)
		} else {
			some(kind+" keys", keys, 1, true)
			some(kind+" values", values, 1, true)
		}
	}
	for lo := at + c.size; lo < end; lo += c.size {
		// A page that continues another one holds values, and maybe keys.
		left := 4
		for _, p := range parts {
			from, to := max(p.lo, lo), min(p.hi, lo+c.size)
			if from >= to || left == 0 {
				continue
			}
			if !p.value {
				c.flip("continued keys", from, to, 1, true)
				left--
				continue
			}
			k := left
			if p.hi < lo+c.size {
				k = 1 // more parts follow
			}
			c.flip("continued values", from, to, k, true)
			left -= k
		}
		if left > 0 {
			c.flip("unused", max(lo, parts[len(parts)-1].hi), lo+c.size, left, false)
		}
	}
}
