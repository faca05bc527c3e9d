package db

import (
	"context"
	"math"
	"slices"
	"unsafe"

	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// keyRun is the number of hits whose keys are read between two checks of the context.
const keyRun = 256

// hitsOf turns the rows that a search has found into hits, in the memory of o.Reuse.
func hitsOf(ctx context.Context, st *state.Collection, o *SearchOptions, s *kind.Search) ([]Hit, error) {
	// All keys are looked up before the first one is copied: each costs two cache misses, and
	// this way those of different keys overlap.
	s.Keys = s.Keys[:0]
	for i, f := range s.Found {
		if i%keyRun == keyRun-1 && ctx.Err() != nil {
			return nil, fail.Wrapf(ctx.Err(), "search %q", st.Entry.Name)
		}
		key, err := st.Key(f.ID)
		if err != nil {
			return nil, err
		}
		vector.Prefetch(unsafe.Pointer(unsafe.SliceData(key)), len(key))
		if request := st.Gen.File.Requests(); request != nil {
			request(key)
		}
		s.Keys = append(s.Keys, key)
	}
	dst := o.Reuse[:0]
	var run *state.ColdRun
	for i, f := range s.Found {
		if i%keyRun == keyRun-1 && ctx.Err() != nil {
			return nil, fail.Wrapf(ctx.Err(), "search %q", st.Entry.Name)
		}
		h := Hit{Row: f.ID, Distance: f.Distance}
		if at := slices.IndexFunc(s.Why, func(e *query.Explanation) bool { return e.Row == f.ID }); at >= 0 {
			h.Why = reasonOfHit(s.Why[at])
		}
		var err error
		if dst, err = appendHit(st, dst, h, s.Keys[i], o.Include, &run); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// visible returns up to k rows of the answer with the distances that users see, without the row that the
// query was read from.
func visible(st *state.Collection, a *rowAsk, found []vector.Neighbor, k int) []vector.Neighbor {
	found = leftOut(a, found)
	found = found[:min(k, len(found))]
	if a.metric(st) != vector.L2 {
		return found
	}
	for i := range found {
		found[i].Distance = externalDistance(vector.L2, found[i].Distance)
	}
	kind.OrderEqual(found)
	return found
}

// leftOut leaves out the row that the query was read from.
func leftOut(a *rowAsk, found []vector.Neighbor) []vector.Neighbor {
	if !a.stored {
		return found
	}
	return slices.DeleteFunc(found, func(f vector.Neighbor) bool { return f.ID == a.self })
}

// appendHit appends a hit with a copy of its row's key, in the key memory of dst's spare capacity,
// and with the other parts of the row. It keeps the decoded run of labels and payloads for the
// following hits.
func appendHit(
	st *state.Collection, dst []Hit, h Hit, key []byte, parts Content, run **state.ColdRun,
) ([]Hit, error) {
	n := len(dst)
	if n < cap(dst) {
		dst = dst[:n+1]
	} else {
		dst = append(dst, Hit{})
	}
	h.Key = append(dst[n].Key[:0], key...)
	if parts != 0 {
		cold, err := st.Cold(h.Row, run)
		if err != nil {
			return nil, err
		}
		if parts&Labels != 0 {
			h.Labels = cold.Labels
		}
		if parts&Attributes != 0 {
			h.Attributes, _ = attribute.Split(cold.Attributes)
		}
		if parts&Text != 0 {
			h.Text = cold.Text
		}
		if parts&Payload != 0 {
			h.Payload = cold.Payload
		}
	}
	dst[n] = h
	return dst, nil
}

// newHits allocates n hits with keys of up to 16 bytes, in two allocations: one per key would
// keep the garbage collector busy during the searches of a batch.
func newHits(n int) []Hit {
	const width = 16
	hits, keys := make([]Hit, n), make([]byte, n*width)
	for i := range hits {
		hits[i].Key = keys[i*width : i*width : (i+1)*width]
	}
	return hits[:0]
}

// externalDistance converts the internal distance, which is squared for L2.
func externalDistance(m vector.Metric, d float32) float32 {
	if m == vector.L2 {
		return float32(math.Sqrt(float64(max(d, 0))))
	}
	return d
}

// cosineRounding is the largest rounding error of a cosine distance.
const cosineRounding = 1e-6

// internalRadius returns the largest internal distance whose external distance is at most r, so
// that no hit has a distance above r, apart from rounding errors of the cosine.
func internalRadius(m vector.Metric, r float64) float32 {
	if math.IsInf(r, 1) {
		return float32(r)
	}
	limit := float32(min(r, math.MaxFloat32)) // a distance that overflows is not within it
	if m == vector.Cosine {
		return max(limit, cosineRounding)
	}
	if m != vector.L2 {
		return limit
	}
	if r*r > math.MaxFloat32 {
		return math.MaxFloat32
	}
	d := float32(r * r)
	for d > 0 && externalDistance(m, d) > limit {
		d = math.Nextafter32(d, 0)
	}
	for {
		up := math.Nextafter32(d, math.MaxFloat32)
		if up == d || externalDistance(m, up) > limit {
			return d
		}
		d = up
	}
}
