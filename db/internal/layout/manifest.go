package layout

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

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

// ReadManifest reads the manifest of an index. get returns the value of a key, kindOf the kind of index
// with a name, nil if there is none.
func ReadManifest(
	c *Collection, r *IndexRef, get func(key []byte) []byte, kindOf func(name string) kind.Kind,
) (m *kind.Manifest, err error) {
	key := codec.Key(r.Object, codec.KindManifest, 0)
	payload, err := DecodeBlock(c.Name, key[:], get(key[:]), true)
	if err != nil {
		return nil, fail.Wrapf(err, "index %q", r.Name)
	}
	if m, err = DecodeManifest(payload, kindOf); err == nil {
		err = foreign(m, r, c)
	}
	if err != nil {
		return nil, BlockError(c.Name, r.Object, codec.KindManifest, 0, fail.Wrapf(err, "index %q", r.Name))
	}
	return m, nil
}

// foreign returns an error if a manifest does not belong to an index of a collection.
func foreign(m *kind.Manifest, r *IndexRef, c *Collection) error {
	of := c.Describe(c.ByFeatures(m.Of))
	switch {
	case m.Object != r.Object || m.Info.Name != r.Name || m.Info.Rows > int(c.Rows),
		!c.Suits(m.Of), !of.Sparse && m.Dim != of.Dim || m.Metric != of.Metric:
		return errors.New("manifest of another index")
	case m.Dim > of.Dim:
		return fmt.Errorf("%d features of %d", m.Dim, of.Dim)
	}
	known := r.Objects()
	for _, object := range m.Objects() {
		if !slices.Contains(known, object) {
			return errors.New("blocks of an object that is no part of it")
		}
	}
	return nil
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
