package layout

import (
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
)

// Sets of row numbers are roaring bitmaps with one block per 65,536 rows, so that a change
// rewrites a few kilobytes. The bitmap in block n holds row numbers minus n·65,536.

// EditSets adds rows to the stored set of an object and removes others. The two sets are
// disjoint; either may be nil.
func EditSets(tx *bbolt.Tx, object uint64, section codec.Kind, add, remove *roaring.Bitmap) error {
	b := tx.Bucket(BucketSets)
	for _, chunk := range SetBlocks(add, remove) {
		key := codec.Key(object, section, chunk)
		set, old := roaring.New(), b.Get(key[:])
		if old != nil {
			var err error
			if set, err = DecodeSet("", key[:], old); err != nil {
				return err
			}
		}
		if rows := kind.Within(add, int(chunk)<<16, 1<<16); rows != nil {
			set.Or(rows)
		}
		if rows := kind.Within(remove, int(chunk)<<16, 1<<16); rows != nil {
			set.AndNot(rows)
		}
		if set.IsEmpty() {
			if err := b.Delete(key[:]); err != nil {
				return fail.Wrapf(err, "delete set")
			}
			continue
		}
		set.RunOptimize()
		data, err := set.ToBytes()
		if err != nil {
			return fail.Wrapf(err, "encode set")
		}
		h := codec.Header{Kind: section, Rows: set.GetCardinality(), Cols: 1}
		if err := b.Put(key[:], codec.Encode(key[:], h, data)); err != nil {
			return fail.Wrapf(err, "put set")
		}
	}
	return nil
}

// SetBlocks returns the numbers of the blocks that hold the rows of any of the sets, ascending.
func SetBlocks(sets ...*roaring.Bitmap) (blocks []uint32) {
	for _, set := range sets {
		if set == nil {
			continue
		}
		for it := set.Iterator(); it.HasNext(); {
			block := it.PeekNext() >> 16
			blocks = append(blocks, block)
			if block == 0xffff {
				break
			}
			it.AdvanceIfNeeded((block + 1) << 16)
		}
	}
	slices.Sort(blocks)
	return slices.Compact(blocks)
}

// DecodeSet reads one block of a set. The bitmap owns its memory.
func DecodeSet(coll string, key, value []byte) (*roaring.Bitmap, error) {
	payload, err := DecodeBlock(coll, key, value, true)
	if err != nil {
		return nil, err
	}
	object, section, chunk := codec.ParseKey(key)
	set := roaring.New()
	if err := set.UnmarshalBinary(payload); err != nil {
		return nil, BlockError(coll, object, section, chunk, err)
	}
	if err := checkSet(set); err != nil {
		return nil, BlockError(coll, object, section, chunk, err)
	}
	return set, nil
}

// checkSet checks a set that was read from a block.
func checkSet(set *roaring.Bitmap) error {
	if err := set.Validate(); err != nil {
		return err
	}
	if !set.IsEmpty() && set.Maximum() > 0xffff {
		return fmt.Errorf("set holds %d, want at most 65535", set.Maximum())
	}
	return nil
}

// CheckSetEnd checks that a block's set has only row numbers below n.
func CheckSetEnd(set *roaring.Bitmap, chunk, n uint32) error {
	if chunk > 0xffff || !set.IsEmpty() && uint64(chunk)<<16+uint64(set.Maximum()) >= uint64(n) {
		return fmt.Errorf("set names a row beyond %d", n)
	}
	return nil
}

// ReadSet returns the union of all blocks of an object's set. Rows at or beyond n are reported
// as damage.
func ReadSet(
	tx *bbolt.Tx, coll string, object uint64, section codec.Kind, n uint32,
) (*roaring.Bitmap, error) {
	out := roaring.New()
	err := EachBlock(tx.Bucket(BucketSets), object, section, func(key, value []byte) error {
		_, _, chunk := codec.ParseKey(key)
		set, err := DecodeSet(coll, key, value)
		if err != nil {
			return err
		}
		if err := CheckSetEnd(set, chunk, n); err != nil {
			return BlockError(coll, object, section, chunk, err)
		}
		if chunk == 0 { // the first block
			out = set
			return nil
		}
		out.Or(roaring.AddOffset(set, chunk<<16))
		return nil
	})
	return out, err
}

// ReadTable decodes a table of attributes.
func ReadTable(coll string, key, value []byte) (attribute.Table, error) {
	payload, err := DecodeBlock(coll, key, value, true)
	if err != nil {
		return attribute.Table{}, err
	}
	t, err := attribute.OpenTable(payload)
	if err != nil {
		object, section, chunk := codec.ParseKey(key)
		return t, BlockError(coll, object, section, chunk, err)
	}
	return t, nil
}
