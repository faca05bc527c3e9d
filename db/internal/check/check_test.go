package check_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/check"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txntest"
)

// TestFinds makes parts of a file disagree, one at a time: each is reported.
func TestFinds(t *testing.T) {
	keyOf := func(c *layout.Collection, i int) []byte { return layout.KeyOf(c.ID, txntest.Row(c.Name, i).Key) }
	for name, change := range map[string]func(tx *bbolt.Tx, c *layout.Collection) error{
		"a key of another row": func(tx *bbolt.Tx, c *layout.Collection) error {
			k := keyOf(c, 5)
			return tx.Bucket(layout.BucketKeys).Put(k, layout.EntryValue(string(layout.BucketKeys), k, 6))
		},
		"a key of no row": func(tx *bbolt.Tx, c *layout.Collection) error {
			k := keyOf(c, 99)
			return tx.Bucket(layout.BucketKeys).Put(k, layout.EntryValue(string(layout.BucketKeys), k, 99))
		},
		"a row without its key": func(tx *bbolt.Tx, c *layout.Collection) error {
			return tx.Bucket(layout.BucketKeys).Delete(keyOf(c, 5))
		},
		"a deleted row with its key": func(tx *bbolt.Tx, c *layout.Collection) error {
			c.Live--
			return layout.EditSets(tx, c.ID, codec.KindTombstones, roaring.BitmapOf(5), nil)
		},
		"a wrong number of rows": func(_ *bbolt.Tx, c *layout.Collection) error {
			c.Live--
			return nil
		},
		"a missing row": func(tx *bbolt.Tx, c *layout.Collection) error {
			k := codec.Key(c.ID, codec.KindTail, 7)
			return tx.Bucket(layout.BucketTail).Delete(k[:])
		},
		"a damaged row": func(tx *bbolt.Tx, c *layout.Collection) error {
			k := codec.Key(c.ID, codec.KindTail, 7)
			b := tx.Bucket(layout.BucketTail)
			v := slices.Clone(b.Get(k[:]))
			v[len(v)/2] ^= 1
			return b.Put(k[:], v)
		},
		"a missing label": func(tx *bbolt.Tx, c *layout.Collection) error {
			return tx.Bucket(layout.BucketLabels).Delete(layout.KeyOf(c.ID, []byte("label-1")))
		},
		"a row with a label it lacks": func(tx *bbolt.Tx, c *layout.Collection) error {
			k := layout.KeyOf(c.ID, []byte("label-1"))
			object, err := layout.LabelObject(c.Name, k, tx.Bucket(layout.BucketLabels).Get(k))
			if err != nil {
				return err
			}
			return layout.EditSets(tx, object, codec.KindLabelRows, roaring.BitmapOf(0), nil)
		},
		"a block of no object": func(tx *bbolt.Tx, _ *layout.Collection) error {
			k := codec.Key(999, codec.KindRows, 0)
			v := codec.Encode(k[:], codec.Header{Kind: codec.KindRows}, nil)
			return tx.Bucket(layout.BucketBlocks).Put(k[:], v)
		},
	} {
		for _, coll := range []string{"dense", "sparse"} {
			t.Run(name+", "+coll, func(t *testing.T) {
				m, path := txntest.Open(t)
				txntest.Put(t, m, coll, 0, 20)
				txntest.Delete(t, m, coll, 10, 12)
				txntest.Check(t, m, path)
				err := m.Exclusive(t.Context(), func(tx *bbolt.Tx, cat *layout.Catalog) error {
					c, err := cat.Find(coll)
					if err != nil {
						return err
					}
					return change(tx, c)
				})
				txntest.Must(t, err)
				found := 0
				err = m.View(func(g *state.Generation) error {
					return check.Run(t.Context(), g, path, func(d fail.Damage) {
						found++
						t.Log(d.Collection, d.Section, d.Err)
					})
				})
				if found == 0 || !errors.Is(err, fail.ErrCorrupt) {
					t.Errorf("%d problems, %v", found, err)
				}
			})
		}
	}
}
