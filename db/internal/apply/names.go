package apply

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/vector"
)

// WriteNames writes the names of the features of a collection that has none yet; their numbers are
// their places in the list.
func WriteNames(tx *bbolt.Tx, coll uint64, list []string) error {
	dict := &names{number: make(map[string]uint32, len(list)), fresh: list}
	for i, name := range list {
		dict.number[name] = uint32(i)
	}
	return writeNew(tx, coll, dict)
}

// names is the part of a collection's dictionary that a transaction has read or added.
type names struct {
	number map[string]uint32 // of the names seen so far
	fresh  []string          // new names, in the order of their numbers
	first  uint32            // number of fresh[0]
}

// number maps named features to numbers and gives new names the next numbers.
func (a *Applier) number(c *layout.Collection, features []vector.Feature) (vector.Sparse, error) {
	dict := a.names[c.ID]
	if dict == nil {
		dict = &names{number: map[string]uint32{}, first: uint32(c.Features)}
		a.names[c.ID] = dict
	}
	s := vector.Sparse{Index: make([]uint32, len(features)), Value: make([]float32, len(features))}
	order := make([]int, len(features))
	ids := make([]uint32, len(features))
	for i, f := range features {
		order[i] = i
		id, ok := dict.number[f.Name]
		if !ok {
			var err error
			if id, err = a.lookUp(c, dict, f.Name); err != nil {
				return s, err
			}
			dict.number[f.Name] = id
		}
		ids[i] = id
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(ids[x], ids[y]) })
	for j, i := range order {
		s.Index[j], s.Value[j] = ids[i], features[i].Value
	}
	return s, nil
}

// lookUp finds a name in the file's dictionary or adds it as a new one.
func (a *Applier) lookUp(c *layout.Collection, dict *names, name string) (uint32, error) {
	b := a.tx.Bucket(layout.BucketFeatures)
	if b == nil {
		return 0, fail.Corruptf(c.Name, "no dictionary of features")
	}
	key := layout.FeatureKey(c.ID, layout.FeatureByName, []byte(name))
	if v := b.Get(key); v != nil {
		n, ok := layout.EntryNumber(string(layout.BucketFeatures), key, v)
		if !ok || n >= uint64(dict.first) {
			return 0, fail.Corruptf(c.Name, "feature %q has no valid number", name)
		}
		return uint32(n), nil
	}
	if c.Features > kind.MaxFeature {
		return 0, fmt.Errorf("%w: collection %q has used all feature numbers", fail.Full, c.Name)
	}
	dict.fresh = append(dict.fresh, name)
	c.Features++
	return uint32(c.Features - 1), nil
}

// writeNew writes the new names in the order of their keys: a page of bbolt is one slice
// until the transaction commits, and inserting many keys out of order would move most of it for
// each.
func writeNew(tx *bbolt.Tx, id uint64, dict *names) error {
	if len(dict.fresh) == 0 {
		return nil
	}
	b := tx.Bucket(layout.BucketFeatures)
	for i, name := range dict.fresh {
		number := binary.BigEndian.AppendUint32(nil, dict.first+uint32(i))
		if err := b.Put(layout.FeatureKey(id, layout.FeatureByID, number), []byte(name)); err != nil {
			return fmt.Errorf("db: put feature: %w", err)
		}
	}
	for _, name := range slices.Sorted(slices.Values(dict.fresh)) {
		key := layout.FeatureKey(id, layout.FeatureByName, []byte(name))
		value := layout.EntryValue(string(layout.BucketFeatures), key, uint64(dict.number[name]))
		if err := b.Put(key, value); err != nil {
			return fmt.Errorf("db: put feature: %w", err)
		}
	}
	return nil
}
