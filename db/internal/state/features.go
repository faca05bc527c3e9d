package state

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/vector"
)

// FeatureNumber returns the number of a name; ok is false if no row has ever had it.
func (st *Collection) FeatureNumber(name string) (id uint32, ok bool, err error) {
	known := st.Gen.File.knownFeatures(st.Entry.ID)
	if id, ok := known.get(name); ok {
		// A later generation may have added the name.
		return id, int(id) < st.Entry.Features, nil
	}
	if err := st.Gen.File.VerifyPages(layout.PartKeys); err != nil {
		return 0, false, err
	}
	key := layout.FeatureKey(st.Entry.ID, layout.FeatureByName, []byte(name))
	st.Gen.Locked(func() {
		b := st.Gen.Tx.Bucket(layout.BucketFeatures)
		if b == nil {
			if st.Entry.Named {
				err = fail.Corruptf(st.Entry.Name, "no dictionary of features")
			}
			return
		}
		v := b.Get(key)
		if v == nil {
			return
		}
		n, verifyPages := layout.EntryNumber(string(layout.BucketFeatures), key, v)
		if !verifyPages || n >= uint64(st.Entry.Features) {
			err = fail.Corruptf(st.Entry.Name, "feature %q has no valid number", name)
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

func (s *File) knownFeatures(coll uint64) *featureNumbers {
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
func (st *Collection) FeatureName(id uint32) (name string, err error) {
	if !st.Entry.Named {
		return fmt.Sprint(uint64(id) + uint64(st.Entry.Numbering.First())), nil
	}
	if err := st.Gen.File.VerifyPages(layout.PartKeys); err != nil {
		return "", err
	}
	st.Gen.Locked(func() {
		if b := st.Gen.Tx.Bucket(layout.BucketFeatures); b != nil {
			number := binary.BigEndian.AppendUint32(nil, id)
			name = string(b.Get(layout.FeatureKey(st.Entry.ID, layout.FeatureByID, number)))
		}
	})
	back, ok, err := st.FeatureNumber(name)
	if err != nil {
		return "", err
	}
	if !ok || back != id {
		return "", fail.Corruptf(st.Entry.Name, "feature %d has no sound name", id)
	}
	return name, nil
}

// NamedFeatures returns the features of a row with their names.
func (st *Collection) NamedFeatures(s vector.Sparse) (out []vector.Feature, err error) {
	defer Guard(st.Gen.File, CatchFaults(), &err)
	out = make([]vector.Feature, s.Len())
	for i, id := range s.Index {
		out[i].Value = s.Value[i]
		if out[i].Name, err = st.FeatureName(id); err != nil {
			return nil, err
		}
	}
	return out, nil
}
