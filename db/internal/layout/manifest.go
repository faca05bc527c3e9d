package layout

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
)

// EncodeManifest returns the stored form of a manifest.
func EncodeManifest(m *kind.Manifest) ([]byte, error) {
	stored := *m
	if err := stored.Encode(); err != nil {
		return nil, fail.Wrapf(err, "index %q: encode manifest", m.Info.Name)
	}
	b, err := json.Marshal(&stored)
	if err != nil {
		return nil, fail.Wrapf(err, "index %q: encode manifest", m.Info.Name)
	}
	if err := checkShape(b); err != nil || len(b) > maxManifest {
		return nil, fmt.Errorf(
			"%w: index %q: a description of %d bytes, want at most %d: a label model may have too many labels",
			fail.Full, m.Info.Name, len(b), maxManifest)
	}
	return b, nil
}

// StoredManifest reads the manifest of an index in a transaction.
func StoredManifest(
	tx *bbolt.Tx, c *Collection, r *IndexRef, kindOf func(name string) kind.Kind,
) (*kind.Manifest, error) {
	key := codec.Key(r.Object, codec.KindManifest, 0)
	payload, err := DecodeBlock(c.Name, key[:], tx.Bucket(BucketMeta).Get(key[:]), true)
	if err != nil {
		return nil, err
	}
	return DecodeManifest(payload, kindOf)
}

// PutManifest writes the manifest of an index, and a copy of it among the blocks, which is
// stored far from it in the file and allows rebuilding a damaged index.
func PutManifest(tx *bbolt.Tx, object uint64, data []byte) error {
	key := codec.Key(object, codec.KindManifest, 0)
	value := codec.Encode(key[:], codec.Header{Kind: codec.KindManifest}, data)
	for _, bucket := range [][]byte{BucketMeta, BucketBlocks} {
		if err := tx.Bucket(bucket).Put(key[:], value); err != nil {
			return fail.Wrapf(err, "put manifest")
		}
	}
	return nil
}

// DecodeManifest decodes a manifest and refuses shapes that no build can have written, so that
// later arithmetic on them cannot overflow. kindOf returns the kind of index with a name, nil if
// there is none.
func DecodeManifest(b []byte, kindOf func(name string) kind.Kind) (*kind.Manifest, error) {
	var m kind.Manifest
	err := checkShape(b)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: index manifest: %w", fail.ErrCorrupt, err)
	}
	switch i := &m.Info; {
	case i.Rows < 0 || int64(i.Rows) > math.MaxUint32:
		err = errors.New("row count")
	case i.TrainingPoints < 0 || int64(i.TrainingPoints) > math.MaxUint32:
		err = errors.New("training points")
	case i.Bytes == nil: // maintenance writes to it
		err = errors.New("sizes of sections")
	case !(i.Reached >= 0 && i.Reached <= 1):
		err = errors.New("share of rows reached")
	default:
		err = m.Decode(kindOf)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: index manifest of %q: %w", fail.ErrCorrupt, m.Info.Name, err)
	}
	return &m, nil
}
