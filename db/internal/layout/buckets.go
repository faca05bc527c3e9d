package layout

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/store"
)

// The root buckets. The root holds nothing else, so no plain value can shift
// the alignment of another (docs/ARCHITECTURE.md, section 4).
var (
	BucketMeta   = []byte("meta")   // catalog, manifests, orphan marks
	BucketBlocks = []byte("blocks") // immutable codec blocks
	BucketTail   = []byte("tail")   // rows not yet sealed, and changes of stored rows, one block each
	BucketSets   = []byte("sets")   // roaring bitmaps of rows: deleted, with a label, changed …
	BucketKeys   = []byte("keys")   // collection ‖ user key → row, see EntryValue
	BucketLabels = []byte("labels") // collection ‖ label → object of its rows
)

// BucketAttributes has the tables that find rows by the value of an attribute, blocks that change.
// It exists once a row has an attribute.
var BucketAttributes = []byte("attributes")

// BucketQueries has samples of the queries of collections. It exists once one is stored. Apart from other
// blocks, so that storing a sample rewrites nothing else.
var BucketQueries = []byte("queries")

// AllBuckets are the root buckets and those made on first use.
var AllBuckets = append(slices.Clone(RootBuckets), BucketFeatures, BucketAttributes, BucketQueries)

// RootBuckets are the buckets that every file has.
var RootBuckets = [][]byte{BucketBlocks, BucketKeys, BucketLabels, BucketMeta, BucketSets, BucketTail}

// BallastKey is the key of padding that keeps a block bucket from being stored inline in its
// parent, where bbolt does not align values. It belongs to object 0, which is otherwise unused.
var BallastKey = codec.Key(0, codec.KindGeneric, 0)

// PutBallast puts the padding into a block bucket, unless it is there.
func PutBallast(b *bbolt.Bucket) error {
	if b.Get(BallastKey[:]) != nil {
		return nil
	}
	padding := make([]byte, PageSize/4)
	err := b.Put(BallastKey[:], codec.Encode(BallastKey[:], codec.Header{Kind: codec.KindGeneric}, padding))
	if err != nil {
		return fail.Wrapf(err, "put padding")
	}
	return nil
}

// The parts of the file whose pages are verified separately.
const (
	PartBlocks store.Parts = 1 << iota
	PartKeys               // and the dictionary of features
	PartLabels
	PartMeta
	PartSets
	PartTail
	PartAttributes
	PartQueries
	AllParts = 1<<iota - 1 | store.FreePages
)

// OfFile describes the buckets to package store. Values are verified with the pages if they are
// small and not verified elsewhere: the entries of keys and labels have their own checksums, and
// sets are blocks whose absence no other check would detect.
var OfFile = store.Layout{
	Buckets: []store.Bucket{
		{Name: string(BucketBlocks), Part: PartBlocks},
		{Name: string(BucketKeys), Part: PartKeys, Values: true},
		{Name: string(BucketFeatures), Part: PartKeys, Values: true},
		{Name: string(BucketLabels), Part: PartLabels, Values: true},
		{Name: string(BucketMeta), Part: PartMeta},
		{Name: string(BucketSets), Part: PartSets, Values: true},
		{Name: string(BucketTail), Part: PartTail},
		{Name: string(BucketAttributes), Part: PartAttributes},
		{Name: string(BucketQueries), Part: PartQueries},
	},
	Pair: checkEntry,
}

// checkEntry verifies an entry of a bucket whose values are verified with its pages.
func checkEntry(bucket string, key, value []byte) error {
	switch bucket {
	case string(BucketKeys), string(BucketLabels), string(BucketFeatures):
		if len(key) > 8 && bucket == string(BucketFeatures) && key[8] == FeatureByID {
			return nil // checked against the entry of the name when it is used
		}
		if _, ok := EntryNumber(bucket, key, value); !ok {
			return fmt.Errorf("bucket %q: checksum of an entry does not match", bucket)
		}
	case string(BucketSets):
		if _, err := DecodeBlock("", key, value, true); err != nil {
			return err
		}
	}
	return nil
}

// Init writes an empty database to an empty file.
func Init(tx *bbolt.Tx) error {
	for _, name := range RootBuckets {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	for _, name := range [][]byte{BucketBlocks, BucketTail, BucketSets} {
		if err := PutBallast(tx.Bucket(name)); err != nil {
			return err
		}
	}
	return WriteCatalog(tx, &Catalog{})
}

// An entry of the keys and labels buckets maps a name to a number: the CRC-32C of bucket, key and number
// (4 bytes), and the number without leading zero bytes, big-endian.
const entrySum = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EntryValue returns the value that maps key to n.
func EntryValue(bucket string, key []byte, n uint64) []byte {
	v := make([]byte, entrySum, entrySum+8)
	for shift := (bits.Len64(n) + 7) / 8 * 8; shift > 0; shift -= 8 {
		v = append(v, byte(n>>(shift-8)))
	}
	binary.BigEndian.PutUint32(v, sumOf(bucket, key, v[entrySum:]))
	return v
}

// EntryNumber returns the number that key maps to; ok reports whether the value is valid.
func EntryNumber(bucket string, key, value []byte) (n uint64, ok bool) {
	if len(value) < entrySum || len(value) > entrySum+8 || len(key) < 9 || len(key) > 9+rows.MaxKey {
		return 0, false
	}
	number := value[entrySum:]
	for _, b := range number {
		n = n<<8 | uint64(b)
	}
	ok = len(number) == 0 || number[0] != 0
	return n, ok && binary.BigEndian.Uint32(value) == sumOf(bucket, key, number)
}

func sumOf(bucket string, key, number []byte) uint32 {
	sum := crc32.Checksum([]byte(bucket), castagnoli)
	return crc32.Update(crc32.Update(sum, castagnoli, key), castagnoli, number)
}

// KeyOf returns the key in the keys bucket of a user key.
func KeyOf(coll uint64, key []byte) []byte {
	b := make([]byte, 8, 8+len(key))
	binary.BigEndian.PutUint64(b, coll)
	return append(b, key...)
}

// BucketFeatures is the dictionary of named features. It exists once a collection needs it:
// collection ‖ 'n' ‖ name → an entry with the number, and collection ‖ 'i' ‖ number → name; all
// integers are big-endian.
var BucketFeatures = []byte("features")

// The parts of the dictionary.
const (
	FeatureByName = 'n'
	FeatureByID   = 'i'
)

// FeatureKey returns a key of the dictionary.
func FeatureKey(coll uint64, kind byte, rest []byte) []byte {
	k := make([]byte, 0, 9+len(rest))
	k = binary.BigEndian.AppendUint64(k, coll)
	k = append(k, kind)
	return append(k, rest...)
}

// LabelObject decodes an entry of the label dictionary.
func LabelObject(coll string, key, v []byte) (uint64, error) {
	object, ok := EntryNumber(string(BucketLabels), key, v)
	if !ok {
		return 0, fail.Corruptf(coll, "label %q: checksum of its entry does not match", key[8:])
	}
	return object, nil
}
