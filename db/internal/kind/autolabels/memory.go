package autolabels

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/verified"
	"github.com/anndb/anndb/query"
)

// memory holds the blocks of a member that has been learned to be measured.
type memory map[codec.Kind][][]byte

// put keeps a block.
func (m memory) put(key [codec.KeySize]byte, value []byte) error {
	b, err := codec.Parse(value)
	if err != nil {
		return err
	}
	_, section, number := codec.ParseKey(key[:])
	for len(m[section]) <= int(number) {
		m[section] = append(m[section], nil)
	}
	m[section][number] = b.Payload
	return nil
}

// Blocks implements arrays.Source.
func (m memory) Blocks(_ context.Context, _ uint64, section codec.Kind) ([][]byte, error) {
	return m[section], nil
}

// Damage implements arrays.Source.
func (memory) Damage(_ uint64, err error) error { return fmt.Errorf("db: a model in memory: %w", err) }

// Once implements arrays.Source.
func (memory) Once(_ verified.Key, _ int, check func() error) error { return check() }

// source is a collection as a model in memory sees it: with the rows of the build only, of which the
// held-out ones are deleted.
type source struct {
	kind.Source
	of   memory
	coll kind.Collection
	held *roaring.Bitmap
}

// newSource returns a source of the first rows of a collection without the held-out ones.
func newSource(st kind.Source, of memory, rows int, held []int) *source {
	s := &source{st, of, *st.Collection(), roaring.New()}
	for _, row := range held {
		s.held.Add(uint32(row))
	}
	s.held.AddRange(uint64(rows), uint64(s.coll.Rows))
	s.coll.Rows = uint32(rows)
	return s
}

// Collection implements kind.Source.
func (s *source) Collection() *kind.Collection { return &s.coll }

// Arrays implements kind.Source.
func (s *source) Arrays(ctx context.Context, _ string, object uint64) *arrays.Reader {
	return arrays.NewReader(ctx, s.of, object)
}

// Shared implements kind.Source: models in memory share nothing.
func (*source) Shared(_ uint64, empty any) any { return empty }

// Relabelled implements kind.Source.
func (*source) Relabelled(uint64) (*roaring.Bitmap, error) { return nil, nil }

// Rows implements kind.Source.
func (s *source) Rows(ctx context.Context) (*query.View, error) {
	all, err := s.Source.Rows(ctx)
	if err != nil {
		return nil, err
	}
	own := *all
	own.Deleted, own.DeletedBits = s.without(all.Deleted), nil
	return &own, nil
}

// Sparse implements kind.Source.
func (s *source) Sparse(ctx context.Context) (*kind.SparseSet, error) {
	all, err := s.Source.Sparse(ctx)
	if err != nil {
		return nil, err
	}
	own := *all
	own.DeletedRows = s.without(all.DeletedRows)
	return &own, nil
}

// without adds the held-out rows to the deleted ones.
func (s *source) without(deleted *roaring.Bitmap) *roaring.Bitmap {
	if deleted == nil {
		return s.held
	}
	return roaring.Or(deleted, s.held)
}
