package layout

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/rows"
)

// ParseBlock parses a stored block, nil if there is none, and checks that its kind matches the key and, if
// verify is true, its checksum.
func ParseBlock(key, value []byte, verify bool) (b codec.Block, err error) {
	if value == nil {
		return b, errors.New("block is missing")
	}
	_, kind, _ := codec.ParseKey(key)
	b, err = codec.Parse(value)
	if err == nil && b.Kind != kind {
		err = fmt.Errorf("block is of kind %v", b.Kind)
	}
	if err == nil && verify {
		err = b.Verify(key)
	}
	return b, err
}

// DecodeBlock returns the raw payload of a block that ParseBlock accepts.
func DecodeBlock(coll string, key, value []byte, verify bool) ([]byte, error) {
	object, kind, chunk := codec.ParseKey(key)
	b, err := ParseBlock(key, value, verify)
	if err == nil {
		var data []byte
		if data, err = b.Data(LimitOf(kind)); err == nil {
			return data, nil
		}
	}
	return nil, BlockError(coll, object, kind, chunk, err)
}

// BlockError adds the location of a block to the error for its damage.
func BlockError(coll string, object uint64, kind codec.Kind, chunk uint32, err error) error {
	if errors.Is(err, codec.ErrNewerFormat) {
		return fmt.Errorf("%w: collection %q object %d section %v chunk %d: %w", fail.NewerFormat,
			coll, object, kind, chunk, err)
	}
	return fail.Corrupt(fail.Damage{Collection: coll, Object: object, Section: kind.String(), Chunk: chunk,
		Offset: -1, Err: err})
}

// ReadTail decodes and verifies a tail row. The result does not alias value.
func ReadTail(c *Collection, key, value []byte) (rows.Row, error) {
	payload, err := DecodeBlock(c.Name, key, value, true)
	if err != nil {
		return rows.Row{}, err
	}
	_, _, row := codec.ParseKey(key)
	out, err := c.RowFormat().DecodeOne(payload)
	if err != nil {
		return rows.Row{}, BlockError(c.Name, c.ID, codec.KindTail, row, err)
	}
	return out, nil
}

// HasBlocks reports whether an object has a block in a section of a bucket.
func HasBlocks(b *bbolt.Bucket, object uint64, section codec.Kind) bool {
	from := codec.Key(object, section, 0)
	k, _ := b.Cursor().Seek(from[:])
	return bytes.HasPrefix(k, from[:12])
}

// EachBlock calls f for every block of an object's section, in order.
func EachBlock(b *bbolt.Bucket, object uint64, section codec.Kind, f func(key, value []byte) error) error {
	from := codec.Key(object, section, 0)
	c := b.Cursor()
	for k, v := c.Seek(from[:]); k != nil; k, v = c.Next() {
		if len(k) != codec.KeySize || string(k[:12]) != string(from[:12]) {
			return nil
		}
		if err := f(k, v); err != nil {
			return err
		}
	}
	return nil
}

// RemovePrefix deletes up to limit entries whose keys have the prefix.
func RemovePrefix(b *bbolt.Bucket, prefix []byte, limit int) (int, error) {
	// Deleting under a cursor moves the cursor, so the keys are collected first.
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.Seek(prefix); len(keys) < limit && k != nil && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		keys = append(keys, slices.Clone(k))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return 0, fmt.Errorf("db: remove: %w", err)
		}
	}
	return len(keys), nil
}
