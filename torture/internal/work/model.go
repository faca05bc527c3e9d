// Package work is a deterministic workload on a database and the exact answer
// to what the database must hold after any number of its batches.
//
// A batch is a function of the script and its number alone, so that a process
// that died needs to say no more than how many batches were acknowledged: the
// file itself says how many it holds, and Verify compares all of it.
package work

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// The collections of a script: vectors, features, and texts with vectors, where a row may lack either.
const (
	Dense  = "dense"
	Sparse = "sparse"
	Both   = "both"
)

// lastKey is the row of Dense that counts batches.
const lastKey = "last"

// collections are those of a script, in order.
var collections = []string{Dense, Sparse, Both}

// Script is a workload: the same one for equal values.
type Script struct {
	// Seed draws everything.
	Seed uint64
	// Dim is the dimension of dense rows; at 2,048 a chunk holds 64 of them.
	Dim int
	// Keys is how many keys there are in each collection, Changes how many of
	// them a batch puts, updates or deletes.
	Keys, Changes int
	// Payload is the length of the longest payload.
	Payload int
}

// Default is a script whose batches seal chunks every few batches.
func Default(seed uint64) Script {
	return Script{Seed: seed, Dim: 2048, Keys: 400, Changes: 24, Payload: 300}
}

// Small is a script whose file stays within a few dozen pages.
func Small(seed uint64) Script {
	return Script{Seed: seed, Dim: 16, Keys: 24, Changes: 6, Payload: 60}
}

// change is what a batch does to one key of all collections: it puts a row
// into each, deletes them, or edits them, if they exist, so that they have the
// labels, attributes, expiry and payload of the new ones and keep the rest.
type change struct {
	key          string
	delete, edit bool
	rows         map[string]db.Row // by collection
}

// edited is a row with all parts of another one that can change.
func edited(r, to db.Row) db.Row {
	r.Labels, r.Attributes, r.ExpiresAt, r.Payload = to.Labels, to.Attributes, to.ExpiresAt, to.Payload
	return r
}

var (
	labelNames = []string{"amber", "blue", "crimson", "dun"}
	features   = func() (out [40]string) {
		for i := range out {
			out[i] = fmt.Sprintf("feature-%02d", i)
		}
		return out
	}()
)

// batch is what batch i does. Keys are distinct within it.
func (s Script) batch(i int) []change {
	rng := rand.New(rand.NewPCG(s.Seed, uint64(i)+1))
	out := make([]change, min(s.Changes, s.Keys))
	for j, k := range rng.Perm(s.Keys)[:len(out)] {
		what := rng.IntN(10)
		c := change{key: fmt.Sprintf("key-%04d", k), delete: what < 2, edit: what >= 8}
		if !c.delete {
			var labels []string
			for _, l := range labelNames {
				if rng.IntN(3) == 0 {
					labels = append(labels, l)
				}
			}
			payload := make([]byte, rng.IntN(s.Payload+1))
			for p := range payload {
				payload[p] = byte(rng.Uint32())
			}
			key := []byte(c.key)
			c.rows = map[string]db.Row{
				Dense: {Vector: denseVector(rng, s.Dim)}, Sparse: {Features: sparseVector(rng)},
				Both: textRow(rng),
			}
			for _, name := range collections {
				r := c.rows[name]
				r.Key, r.Labels, r.Payload = key, labels, payload
				r.Attributes = map[string]any{"n": int64(rng.IntN(50)), "color": labelNames[rng.IntN(len(labelNames))]}
				if rng.IntN(4) == 0 {
					r.ExpiresAt = time.Unix(1<<33+int64(rng.IntN(1000)), 0).UTC()
				}
				c.rows[name] = r
			}
		}
		out[j] = c
	}
	return out
}

// denseVector draws a row, every other one of bytes.
func denseVector(rng *rand.Rand, dim int) []float32 {
	v := make([]float32, dim)
	whole := rng.IntN(2) == 0
	for i := range v {
		if whole {
			v[i] = float32(rng.IntN(256))
		} else {
			v[i] = float32(rng.NormFloat64()*60 + 128)
		}
	}
	return v
}

// sparseVector draws a row of 1 to 10 features in the order of their names.
func sparseVector(rng *rand.Rand) []vector.Feature {
	of := rng.Perm(len(features))[:1+rng.IntN(10)]
	slices.Sort(of)
	out := make([]vector.Feature, len(of))
	for i, f := range of {
		out[i] = vector.Feature{Name: features[f], Value: float32(1 + rng.IntN(9))}
	}
	return out
}

// model is what a database holds after a number of batches, by collection and key.
type model struct {
	batches int
	rows    map[string]map[string]db.Row
}

// last is the row of Dense that says how many batches there are.
func (s Script) last(batches int) db.Row {
	return db.Row{Key: []byte(lastKey), Vector: make([]float32, s.Dim), Payload: strconv.AppendInt(nil, int64(batches), 10)}
}

// model is the state after a number of batches.
func (s Script) model(batches int) model {
	m := model{batches, map[string]map[string]db.Row{}}
	for _, name := range collections {
		m.rows[name] = map[string]db.Row{}
	}
	for i := range batches {
		for _, c := range s.batch(i) {
			for _, name := range collections {
				of := m.rows[name]
				old, exists := of[c.key]
				switch {
				case c.delete:
					delete(of, c.key)
				case !c.edit:
					of[c.key] = c.rows[name]
				case exists:
					of[c.key] = edited(old, c.rows[name])
				}
			}
		}
	}
	if batches > 0 {
		m.rows[Dense][lastKey] = s.last(batches)
	}
	return m
}

// sameRow says how a row differs from what was written, nil if it does not.
func sameRow(got, want db.Row) error {
	slices.SortFunc(got.Features, func(a, b vector.Feature) int { return strings.Compare(a.Name, b.Name) })
	switch {
	case !slices.Equal(got.Vector, want.Vector):
		return fmt.Errorf("row %q: another vector", got.Key)
	case got.Text != want.Text:
		return fmt.Errorf("row %q: text %q, want %q", got.Key, got.Text, want.Text)
	case !slices.Equal(got.Features, want.Features):
		return fmt.Errorf("row %q: features %v, want %v", got.Key, got.Features, want.Features)
	case !slices.Equal(got.Labels, want.Labels):
		return fmt.Errorf("row %q: labels %q, want %q", got.Key, got.Labels, want.Labels)
	case !maps.Equal(got.Attributes, want.Attributes) || !got.ExpiresAt.Equal(want.ExpiresAt):
		return fmt.Errorf("row %q: attributes %v until %v, want %v until %v", got.Key, got.Attributes,
			got.ExpiresAt, want.Attributes, want.ExpiresAt)
	case !bytes.Equal(got.Payload, want.Payload):
		return fmt.Errorf("row %q: another payload", got.Key)
	}
	return nil
}

// near is a row and its distance by brute force.
type near struct {
	key      string
	distance float64
}

func nearest(of map[string]float64) []near {
	out := make([]near, 0, len(of))
	for k, d := range of {
		out = append(out, near{k, d})
	}
	slices.SortFunc(out, func(a, b near) int { return cmp.Compare(a.distance, b.distance) })
	return out
}

// euclidean is the distance of every row with a vector that passes.
func (m model) euclidean(coll string, q []float32, passes func(db.Row) bool) map[string]float64 {
	out := map[string]float64{}
	for k, r := range m.rows[coll] {
		if r.Vector == nil || passes != nil && !passes(r) {
			continue
		}
		sum := 0.0
		for i, x := range r.Vector {
			d := float64(x) - float64(q[i])
			sum += d * d
		}
		out[k] = math.Sqrt(sum)
	}
	return out
}

// cosine is 1 - cosine of every sparse row that passes and shares a feature.
func (m model) cosine(q []vector.Feature, passes func(db.Row) bool) map[string]float64 {
	weight, length := map[string]float64{}, 0.0
	for _, f := range q {
		weight[f.Name] = float64(f.Value)
		length += float64(f.Value) * float64(f.Value)
	}
	out := map[string]float64{}
	for k, r := range m.rows[Sparse] {
		if passes != nil && !passes(r) {
			continue
		}
		dot, own := 0.0, 0.0
		for _, f := range r.Features {
			dot += weight[f.Name] * float64(f.Value)
			own += float64(f.Value) * float64(f.Value)
		}
		if dot > 0 {
			out[k] = 1 - dot/math.Sqrt(own*length)
		}
	}
	return out
}
