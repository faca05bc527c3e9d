package parquet

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// Kinds of pages, encodings, codecs.
const (
	dataPage       = 0
	indexPage      = 1
	dictionaryPage = 2
	dataPage2      = 3

	plainEncoding   = 0
	plainDictionary = 2
	rleEncoding     = 3
	deltaPacked     = 5
	deltaLengths    = 6
	deltaTexts      = 7
	rleDictionary   = 8
	byteStreamSplit = 9
	codecNone       = 0
	codecSnappy     = 1
	codecGzip       = 2
	codecBrotli     = 4
	codecZstd       = 6
	codecLZ4        = 7
)

// otherCodecs names the compressions that are not read.
var otherCodecs = map[int64]string{3: "lzo", 5: "lz4 (of Hadoop)"}

// Limits of pages, in bytes.
const (
	maxPage        = 1 << 30
	maxHeader      = 64 << 10
	maxSnappyRatio = 64 // a copy of two bytes has at most 64
	maxZstdWindow  = 128 << 20
)

// page reads the next page that has values.
func (c *chunkReader) page() error {
	for {
		head := make([]byte, min(maxHeader, c.end-c.at))
		if err := readAt(c.file.r, head, c.at); err != nil {
			return err
		}
		h, n, err := thrift(head)
		if err != nil {
			return fmt.Errorf("header of a page: %w", err)
		}
		c.at += int64(n)
		size, raw := h.field(3).number, h.field(2).number
		if size < 0 || size > c.end-c.at || raw < 0 || raw > maxPage {
			return fmt.Errorf("a page of %d bytes, %d uncompressed, of which %d are left", size, raw, c.end-c.at)
		}
		b := make([]byte, size)
		if err := readAt(c.file.r, b, c.at); err != nil {
			return err
		}
		c.at += size
		if h.has(4) && crc32.ChecksumIEEE(b) != uint32(h.field(4).number) {
			return errors.New("a page does not have its checksum")
		}
		switch h.field(1).number {
		case indexPage:
			continue
		case dictionaryPage:
			if err := c.dictionary(h.field(7), b, raw); err != nil {
				return err
			}
		case dataPage:
			return c.data(h.field(5), b, raw)
		case dataPage2:
			return c.data2(h.field(8), b, raw)
		default:
			return fmt.Errorf("a page of kind %d", h.field(1).number)
		}
	}
}

// dictionary reads a page of values that others refer to by number.
func (c *chunkReader) dictionary(h value, b []byte, raw int64) error {
	if e := h.field(2).number; c.hasDict || e != plainEncoding && e != plainDictionary {
		return errors.New("a second dictionary, or one of an encoding that is not PLAIN")
	}
	b, err := decompress(c.codec, b, raw)
	if err != nil {
		return err
	}
	n := h.field(1).number
	if n < 0 || n > int64(len(b)) {
		return fmt.Errorf("a dictionary of %d values in %d bytes", n, len(b))
	}
	d := plain{kind: c.column.Type, length: c.column.Length, b: b}
	for range n {
		v, err := d.next()
		if err != nil {
			return err
		}
		c.dict = append(c.dict, v)
	}
	c.hasDict = true
	return nil
}

// data begins a data page of version 1, whose levels have lengths of four bytes in front.
func (c *chunkReader) data(h value, b []byte, raw int64) error {
	b, err := decompress(c.codec, b, raw)
	if err != nil {
		return err
	}
	part := func(most int, encoding int64) (levels, error) {
		if most == 0 {
			return levels{}, nil
		}
		if encoding != rleEncoding || len(b) < 4 {
			return levels{}, fmt.Errorf("levels of encoding %d in %d bytes", encoding, len(b))
		}
		n := uint64(littleEndian(b[:4]))
		if b = b[4:]; n > uint64(len(b)) {
			return levels{}, fmt.Errorf("levels of %d bytes of %d", n, len(b))
		}
		l := newLevels(b[:n], most)
		b = b[n:]
		return l, nil
	}
	if c.reps, err = part(c.column.MaxRep, h.field(4).number); err != nil {
		return err
	}
	if c.defs, err = part(c.column.MaxDef, h.field(3).number); err != nil {
		return err
	}
	return c.begin(h.field(1).number, h.field(2).number, b)
}

// data2 begins a data page of version 2, whose levels are not compressed.
func (c *chunkReader) data2(h value, b []byte, raw int64) error {
	defs, reps := h.field(5).number, h.field(6).number
	if defs < 0 || reps < 0 || defs > int64(len(b)) || reps > int64(len(b))-defs || defs+reps > raw {
		return fmt.Errorf("levels of %d and %d bytes of %d", reps, defs, len(b))
	}
	c.reps, c.defs = newLevels(b[:reps], c.column.MaxRep), newLevels(b[reps:reps+defs], c.column.MaxDef)
	b = b[reps+defs:]
	if !h.has(7) || h.field(7).number != 0 {
		var err error
		if b, err = decompress(c.codec, b, raw-reps-defs); err != nil {
			return err
		}
	}
	return c.begin(h.field(1).number, h.field(4).number, b)
}

// begin begins the values of a page.
func (c *chunkReader) begin(n, encoding int64, b []byte) error {
	if n < 0 || n > c.left {
		return fmt.Errorf("a page of %d values, of which %d are left", n, c.left)
	}
	c.inPage = n
	kind := c.column.Type
	switch encoding {
	case plainEncoding:
		c.values = &plain{kind: kind, length: c.column.Length, b: b}
		return nil
	case rleEncoding:
		if kind == Boolean && len(b) >= 4 {
			c.values = &booleans{newLevels(b[4:], 1)}
			return nil
		}
	case plainDictionary, rleDictionary:
		if len(b) == 0 { // all are null
			c.values = &plain{}
			return nil
		}
		if b[0] <= 32 && c.hasDict {
			c.values = &indexed{levels{b: b[1:], width: int(b[0])}, c.dict}
			return nil
		}
	case deltaPacked:
		if kind == Int32 || kind == Int64 {
			d, err := newDeltas(b)
			c.values = d
			return err
		}
	case deltaLengths, deltaTexts:
		if kind == ByteArray {
			t, err := newTexts(b, encoding == deltaTexts)
			c.values = t
			return err
		}
	case byteStreamSplit:
		if size := sizes[kind]; size > 0 && len(b)%size == 0 {
			c.values = &split{size: size, n: len(b) / size, b: b}
			return nil
		}
	}
	return fmt.Errorf("the encoding %d is not supported here", encoding)
}

// decompress returns the raw bytes of a page.
func decompress(codec int64, b []byte, raw int64) ([]byte, error) {
	var r io.Reader
	switch codec {
	case codecNone:
		if int64(len(b)) != raw {
			return nil, fmt.Errorf("a page of %d bytes, want %d", len(b), raw)
		}
		return b, nil
	case codecSnappy:
		n, err := snappy.DecodedLen(b)
		if err != nil || int64(n) != raw || n > maxSnappyRatio*(len(b)+1) {
			return nil, fmt.Errorf("a page of %d bytes in %d, want %d", n, len(b), raw)
		}
		return snappy.Decode(nil, b)
	case codecGzip:
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		r = z
	case codecZstd:
		z, err := zstd.NewReader(bytes.NewReader(b),
			zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	case codecBrotli:
		r = brotli.NewReader(bytes.NewReader(b))
	case codecLZ4:
		out, err := unlz4(b, raw)
		if err == nil && int64(len(out)) != raw {
			err = fmt.Errorf("a page of %d bytes, want %d", len(out), raw)
		}
		return out, err
	default:
		return nil, fmt.Errorf("the compression %s is not read, only snappy, gzip, zstd, brotli and lz4_raw",
			cmp.Or(otherCodecs[codec], fmt.Sprint(codec)))
	}
	var out bytes.Buffer
	if _, err := io.Copy(&out, io.LimitReader(r, raw+1)); err != nil {
		return nil, err
	}
	if int64(out.Len()) != raw {
		return nil, fmt.Errorf("a page of %d bytes or more, want %d", out.Len(), raw)
	}
	return out.Bytes(), nil
}
