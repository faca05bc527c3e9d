package check

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
)

// pair checks one key and value of a bucket.
func (c *checker) pair(bucket, key, value []byte, at int64) {
	problem := func(format string, a ...any) {
		c.found(fail.Damage{Offset: at,
			Err: fmt.Errorf("bucket %q: "+format, append([]any{bucket}, a...)...)})
	}
	c.read.add(int64(len(key) + len(value)))
	switch string(bucket) {
	case string(layout.BucketBlocks), string(layout.BucketTail), string(layout.BucketSets),
		string(layout.BucketMeta), string(layout.BucketAttributes), string(layout.BucketQueries):
		c.block(string(bucket), key, value, at)
	case string(layout.BucketKeys):
		n, ok := layout.EntryNumber(string(layout.BucketKeys), key, value)
		if !ok || n > layout.MaxRows {
			problem("checksum of an entry of %d and %d bytes does not match", len(key), len(value))
			return
		}
		id, row := binary.BigEndian.Uint64(key), uint32(n)
		x := c.colls[id]
		switch {
		case x == nil:
			if !c.marked(id) {
				problem("key of collection %d, which does not exist", id)
			}
		case row >= x.Rows:
			problem("key %q points to row %d of %d", key[8:], row, x.Rows)
		case c.keys[id][row] != "":
			problem("keys %q and %q share row %d", key[8:], c.keys[id][row], row)
		default:
			c.keys[id][row] = string(key[8:])
		}
	case string(layout.BucketLabels):
		object, ok := layout.EntryNumber(string(layout.BucketLabels), key, value)
		if !ok {
			problem("checksum of an entry of %d and %d bytes does not match", len(key), len(value))
			return
		}
		id := binary.BigEndian.Uint64(key)
		if x := c.colls[id]; x != nil {
			c.labels[object] = x
		} else if !c.marked(id) {
			problem("label of collection %d, which does not exist", id)
		}
	case string(layout.BucketFeatures):
		c.feature(key, value, problem)
	default:
		problem("unknown bucket")
	}
}

// feature checks an entry of the dictionary of features.
func (c *checker) feature(key, value []byte, problem func(string, ...any)) {
	if len(key) < 10 {
		problem("entry of %d and %d bytes", len(key), len(value))
		return
	}
	id := binary.BigEndian.Uint64(key)
	x := c.colls[id]
	switch {
	case x == nil:
		if !c.marked(id) {
			problem("feature of collection %d, which does not exist", id)
		}
	case key[8] == layout.FeatureByName:
		n, ok := layout.EntryNumber(string(layout.BucketFeatures), key, value)
		if !ok || n >= uint64(x.Features) {
			problem("feature %q has no valid number", key[9:])
			return
		}
		c.mirror(x, string(key[9:]), uint32(n), problem)
	case key[8] == layout.FeatureByID && len(key) == 13:
		c.mirror(x, string(value), binary.BigEndian.Uint32(key[9:]), problem)
	default:
		problem("entry of %d and %d bytes", len(key), len(value))
	}
}

// mirror checks that the name and the number of a feature refer to each other.
func (c *checker) mirror(x *layout.Collection, name string, id uint32, problem func(string, ...any)) {
	back, err := c.g.Collections[x.Name].FeatureName(id)
	if err != nil {
		problem("%w", err)
	} else if back != name {
		problem("feature %d is named %q and %q", id, name, back)
	}
}

// marked reports whether an object awaits removal.
func (c *checker) marked(object uint64) bool {
	if len(c.marks) == 0 {
		c.marks[0] = true
		c.g.Locked(func() {
			for _, id := range layout.OrphanMarks(c.g.Tx) {
				c.marks[id] = true
			}
		})
	}
	return object > 0 && c.marks[object]
}

// block checks one block: frame, checksum, and contents if they are self-contained.
func (c *checker) block(bucket string, key, value []byte, at int64) {
	object, kind, chunk := codec.ParseKey(key)
	p := fail.Damage{Object: object, Section: kind.String(), Chunk: chunk, Offset: at}
	if x := c.colls[object]; x != nil {
		p.Collection = x.Name
	} else if x := c.indexes[object]; x != nil {
		p.Collection = x.Name
	} else if x := c.attrs[object]; x != nil {
		p.Collection = x.Name
	}
	if len(key) != codec.KeySize || len(value)%codec.Align != 0 {
		p.Err = fmt.Errorf("bucket %q: entry of %d and %d bytes", bucket, len(key), len(value))
		c.found(p)
		return
	}
	b, err := layout.ParseBlock(key, value, true)
	if err == nil {
		var data []byte
		if data, err = b.Data(layout.LimitOf(kind)); err == nil {
			err = checkContents(kind, data, c.g.File.Kinds)
		}
	}
	if err == nil && object != 0 && kind != codec.KindLabelRows && c.colls[object] == nil &&
		c.indexes[object] == nil && (kind != codec.KindAttribute || c.attrs[object] == nil) && !c.marked(object) {
		err = errors.New("block of an object that does not exist")
	}
	if x := c.indexes[object]; err == nil && kind == codec.KindRelabelled && x != nil &&
		!slices.ContainsFunc(x.Indexes, func(r layout.IndexRef) bool { return r.Object == object && r.Labels }) {
		err = errors.New("relabelled rows of an object that is not the main one of a label model")
	}
	if err != nil {
		p.Err = fmt.Errorf("bucket %q: %w", bucket, err)
		c.found(p)
	}
}

// checkContents decodes payloads that have an internal structure.
func checkContents(section codec.Kind, data []byte, kinds func(string) kind.Kind) error {
	switch section {
	case codec.KindKeys:
		_, err := codec.NewStrings(data)
		return err
	case codec.KindCold:
		t, err := codec.NewLengths(data)
		for i := 0; err == nil && i < t.Len(); i++ {
			_, err = rows.DecodeCold(t.At(i))
		}
		return err
	case codec.KindChange:
		_, err := layout.DecodeChange(data)
		return err
	case codec.KindTombstones, codec.KindLabelRows, codec.KindChanged, codec.KindRelabelled,
		codec.KindStale, codec.KindVectorless:
		set := roaring.New()
		if err := set.UnmarshalBinary(data); err != nil {
			return err
		}
		return set.Validate()
	case codec.KindManifest:
		_, err := layout.DecodeManifest(data, kinds)
		return err
	}
	return nil
}
