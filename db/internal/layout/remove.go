package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
)

// removeKeys is the number of entries that RemoveObject deletes in one transaction: large enough to
// be efficient, small enough that waiting writers do not wait long.
const removeKeys = 4096

// RemoveObject deletes up to removeKeys entries of an object from all buckets and reports whether
// none is left.
func RemoveObject(tx *bbolt.Tx, object uint64) (done bool, err error) {
	left := removeKeys
	prefix := binary.BigEndian.AppendUint64(nil, object)
	// The row sets of a collection's labels are separate objects.
	dict := tx.Bucket(BucketLabels)
	for left > 0 {
		k, v := dict.Cursor().Seek(prefix)
		if k == nil || !bytes.HasPrefix(k, prefix) {
			break
		}
		label, err := LabelObject("", k, v)
		if err != nil {
			return false, err
		}
		ofLabel := binary.BigEndian.AppendUint64(nil, label)
		n, err := RemovePrefix(tx.Bucket(BucketSets), ofLabel, left)
		if err != nil {
			return false, err
		}
		if left -= n; left <= 0 {
			return false, nil
		}
		if err := dict.Delete(slices.Clone(k)); err != nil {
			return false, fmt.Errorf("db: remove label: %w", err)
		}
		left--
	}
	for _, name := range [][]byte{
		BucketBlocks, BucketTail, BucketSets, BucketKeys, BucketFeatures, BucketAttributes, BucketQueries,
	} {
		if left <= 0 {
			return false, nil
		}
		if tx.Bucket(name) == nil {
			continue // the bucket is created on first use
		}
		n, err := RemovePrefix(tx.Bucket(name), prefix, left)
		if err != nil {
			return false, err
		}
		left -= n
	}
	if left <= 0 {
		return false, nil
	}
	k := codec.Key(object, codec.KindManifest, 0)
	return true, tx.Bucket(BucketMeta).Delete(k[:])
}
