package layout

import (
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/sample"
	"github.com/anndb/anndb/vector"
)

// PutQueries stores the sample of the queries of a collection, in place of the one before.
func PutQueries(tx *bbolt.Tx, c *Collection, s sample.Stored) error {
	b, err := tx.CreateBucketIfNotExists(BucketQueries)
	if err != nil {
		return fail.Wrapf(err, "bucket of queries")
	}
	if err := PutBallast(b); err != nil {
		return err
	}
	numbers := make([]float32, 0, len(s.Queries)*c.Dim+1)
	for _, q := range s.Queries {
		numbers = append(numbers, q...)
	}
	numbers = append(numbers, float32(s.Weight))
	key := codec.Key(c.ID, codec.KindQueries, 0)
	h := codec.Header{Kind: codec.KindQueries, Elem: codec.F32, Rows: uint64(len(s.Queries)),
		Cols: uint32(c.Dim)}
	if err := b.Put(key[:], codec.Encode(key[:], h, codec.Bytes(numbers))); err != nil {
		return fail.Wrapf(err, "put queries")
	}
	return nil
}

// ReadQueries returns the stored sample of the queries of a collection, an empty one if there is none.
func ReadQueries(tx *bbolt.Tx, c *Collection) (s sample.Stored, err error) {
	b, key := tx.Bucket(BucketQueries), codec.Key(c.ID, codec.KindQueries, 0)
	if b == nil {
		return s, nil
	}
	value := b.Get(key[:])
	if value == nil {
		return s, nil
	}
	payload, err := DecodeBlock(c.Name, key[:], value, true)
	if err != nil {
		return s, err
	}
	numbers, err := codec.View[float32](payload, len(payload)/4)
	if err == nil {
		s, err = decodeQueries(numbers, c.Dim)
	}
	if err != nil {
		return sample.Stored{}, BlockError(c.Name, c.ID, codec.KindQueries, 0, err)
	}
	return s, nil
}

// decodeQueries reads the numbers of a stored sample. The queries are copies.
func decodeQueries(numbers []float32, dim int) (s sample.Stored, err error) {
	n := len(numbers) - 1
	if n < 0 || dim < 1 || n%dim != 0 || n/dim > sample.Most {
		return s, fmt.Errorf("%d numbers in a sample of queries of %d coordinates", len(numbers), dim)
	}
	if s.Weight = float64(numbers[n]); !(s.Weight >= 0 && s.Weight <= 1) {
		return s, fmt.Errorf("weight of a sample of queries is %g, want 0 to 1", s.Weight)
	}
	if i := vector.IsFinite(numbers); i >= 0 {
		return s, fmt.Errorf("coordinate %d of a sample of queries is %g", i, numbers[i])
	}
	all := append([]float32(nil), numbers[:n]...)
	for ; len(all) > 0; all = all[dim:] {
		s.Queries = append(s.Queries, all[:dim:dim])
	}
	return s, nil
}
