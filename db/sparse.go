package db

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/vector"
)

// bucketFeatures is the dictionary of named features. It exists once a collection needs it:
// collection ‖ 'n' ‖ name → an entry with the number, and collection ‖ 'i' ‖ number → name; all
// integers are big-endian.
var bucketFeatures = []byte("features")

const (
	featureByName = 'n'
	featureByID   = 'i'
)

// checkSparse checks the vector of a row for a sparse collection.
func checkSparse(r *Row, named bool) error {
	switch {
	case r.Vector != nil:
		return fmt.Errorf("%w: a dense vector, the collection is sparse", fail.Kind)
	case named && r.Sparse.Len() > 0:
		return fmt.Errorf("%w: numbered features, the collection's have names", fail.Kind)
	case !named && len(r.Features) > 0:
		return fmt.Errorf("%w: named features, the collection's are numbers", fail.Kind)
	case r.Sparse.Len() > MaxFeatures || len(r.Features) > MaxFeatures:
		return fmt.Errorf("%w: more than %d", fail.Features, MaxFeatures)
	}
	if err := checkNumbered(r.Sparse); err != nil {
		return err
	}
	return checkNamed(r.Features)
}

// checkNumbered checks a sparse vector given by a caller.
func checkNumbered(s vector.Sparse) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("%w: %w", fail.Features, err)
	}
	for i, f := range s.Index {
		if f > MaxFeature {
			return fmt.Errorf("%w: feature %d, want at most %d", fail.Features, f, MaxFeature)
		}
		if s.Value[i] < 0 {
			return fmt.Errorf("%w: feature %d has the negative value %g", fail.Features, f, s.Value[i])
		}
	}
	return nil
}

// checkNamed checks named features given by a caller.
func checkNamed(features []Feature) error {
	seen := make(map[string]bool, len(features))
	for _, f := range features {
		v := float64(f.Value)
		switch {
		case f.Name == "" || len(f.Name) > MaxKey || !utf8.ValidString(f.Name):
			return fmt.Errorf("%w: name %q (want 1 to %d bytes of UTF-8)", fail.Features, f.Name, MaxKey)
		case seen[f.Name]:
			return fmt.Errorf("%w: %q is given twice", fail.Features, f.Name)
		case math.IsNaN(v) || math.IsInf(v, 0) || v < 0:
			return fmt.Errorf("%w: %q has the value %g", fail.Features, f.Name, v)
		}
		seen[f.Name] = true
	}
	return nil
}

// nonZero returns a copy of s without zeros.
func nonZero(s vector.Sparse) (out vector.Sparse) {
	for i, f := range s.Index {
		if s.Value[i] > 0 {
			out.Index = append(out.Index, f)
			out.Value = append(out.Value, s.Value[i])
		}
	}
	return out
}

// featureKey returns a key of the dictionary.
func featureKey(coll uint64, kind byte, rest []byte) []byte {
	k := make([]byte, 0, 9+len(rest))
	k = binary.BigEndian.AppendUint64(k, coll)
	k = append(k, kind)
	return append(k, rest...)
}

// names is the part of a collection's dictionary that a transaction has read or added.
type names struct {
	number map[string]uint32 // of the names seen so far
	fresh  []string          // new names, in the order of their numbers
	first  uint32            // number of fresh[0]
}

// number maps named features to numbers and gives new names the next numbers.
func (a *applier) number(c *collection, features []Feature) (vector.Sparse, error) {
	dict := a.names[c.ID]
	if dict == nil {
		dict = &names{number: map[string]uint32{}, first: uint32(c.Dim)}
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
func (a *applier) lookUp(c *collection, dict *names, name string) (uint32, error) {
	b := a.tx.Bucket(bucketFeatures)
	if b == nil {
		return 0, corruptf(c.Name, "no dictionary of features")
	}
	key := featureKey(c.ID, featureByName, []byte(name))
	if v := b.Get(key); v != nil {
		n, ok := entryNumber(string(bucketFeatures), key, v)
		if !ok || n >= uint64(dict.first) {
			return 0, corruptf(c.Name, "feature %q has no valid number", name)
		}
		return uint32(n), nil
	}
	if c.Dim > MaxFeature {
		return 0, fmt.Errorf("%w: collection %q has used all feature numbers", fail.Full, c.Name)
	}
	dict.fresh = append(dict.fresh, name)
	c.Dim++
	return uint32(c.Dim - 1), nil
}

// writeNames writes the new names in the order of their keys: a page of bbolt is one slice
// until the transaction commits, and inserting many keys out of order would move most of it for
// each.
func (a *applier) writeNames(id uint64, dict *names) error {
	if len(dict.fresh) == 0 {
		return nil
	}
	b := a.tx.Bucket(bucketFeatures)
	for i, name := range dict.fresh {
		number := binary.BigEndian.AppendUint32(nil, dict.first+uint32(i))
		if err := b.Put(featureKey(id, featureByID, number), []byte(name)); err != nil {
			return fmt.Errorf("db: put feature: %w", err)
		}
	}
	for _, name := range slices.Sorted(slices.Values(dict.fresh)) {
		key := featureKey(id, featureByName, []byte(name))
		if err := b.Put(key, entryValue(string(bucketFeatures), key, uint64(dict.number[name]))); err != nil {
			return fmt.Errorf("db: put feature: %w", err)
		}
	}
	return nil
}

// featureNumber returns the number of a name; ok is false if no row has ever had it.
func (st *collState) featureNumber(name string) (id uint32, ok bool, err error) {
	known := st.g.store.knownFeatures(st.c.ID)
	if id, ok := known.get(name); ok {
		// A later generation may have added the name.
		return id, int(id) < st.c.Dim, nil
	}
	if err := st.g.store.verifyPages(partKeys); err != nil {
		return 0, false, err
	}
	key := featureKey(st.c.ID, featureByName, []byte(name))
	st.g.locked(func() {
		b := st.g.tx.Bucket(bucketFeatures)
		if b == nil {
			if st.c.Named {
				err = corruptf(st.c.Name, "no dictionary of features")
			}
			return
		}
		v := b.Get(key)
		if v == nil {
			return
		}
		n, verifyPages := entryNumber(string(bucketFeatures), key, v)
		if !verifyPages || n >= uint64(st.c.Dim) {
			err = corruptf(st.c.Name, "feature %q has no valid number", name)
			return
		}
		id, ok = uint32(n), true
	})
	if ok {
		known.put(name, id)
	}
	return id, ok, err
}

// featureNumbers caches the numbers of names in queries: a name keeps its number for the life
// of the collection.
type featureNumbers struct {
	mu     sync.RWMutex
	number map[string]uint32
}

// maxKnownFeatures bounds the cache. It is cleared when full.
const maxKnownFeatures = 1 << 17

func (s *openFile) knownFeatures(coll uint64) *featureNumbers {
	if known, ok := s.features.Load(coll); ok {
		return known.(*featureNumbers)
	}
	known, _ := s.features.LoadOrStore(coll, &featureNumbers{})
	return known.(*featureNumbers)
}

func (f *featureNumbers) get(name string) (uint32, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	id, ok := f.number[name]
	return id, ok
}

func (f *featureNumbers) put(name string, id uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.number == nil || len(f.number) >= maxKnownFeatures {
		f.number = map[string]uint32{}
	}
	f.number[strings.Clone(name)] = id
}

// FeatureName returns the name of a feature number: from the dictionary for named features,
// otherwise the number in the collection's Numbering. The dictionary must map name and number
// to each other, so that a damaged name is found.
func (st *collState) FeatureName(id uint32) (name string, err error) {
	if !st.c.Named {
		return fmt.Sprint(uint64(id) + uint64(st.c.Numbering.First())), nil
	}
	if err := st.g.store.verifyPages(partKeys); err != nil {
		return "", err
	}
	st.g.locked(func() {
		if b := st.g.tx.Bucket(bucketFeatures); b != nil {
			name = string(b.Get(featureKey(st.c.ID, featureByID, binary.BigEndian.AppendUint32(nil, id))))
		}
	})
	back, ok, err := st.featureNumber(name)
	if err != nil {
		return "", err
	}
	if !ok || back != id {
		return "", corruptf(st.c.Name, "feature %d has no sound name", id)
	}
	return name, nil
}

// named returns a sparse vector's features with their names.
func (st *collState) named(s vector.Sparse) ([]Feature, error) {
	out := make([]Feature, s.Len())
	for i, id := range s.Index {
		name, err := st.FeatureName(id)
		if err != nil {
			return nil, err
		}
		out[i] = Feature{name, s.Value[i]}
	}
	return out, nil
}
