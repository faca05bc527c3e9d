package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/anndb/anndb/bench/internal/vectors"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// k is how many neighbours every query asks for.
const k = 10

// truth is, for every query, the distance of its k-th nearest row; rows no
// farther count as found, so ties are fair to all.
type truth struct {
	Kth []float64
}

// distance is exact but for rounding in float64: squared L2, which orders unit
// rows as cosine does.
func distance(a, b []float32) float64 {
	sum := 0.0
	for i, x := range a {
		d := float64(x) - float64(b[i])
		sum += d * d
	}
	return sum
}

// exact finds the truth of the queries by comparing with every row, in float32
// for the choice of the nearest 4k and in float64 for their order. It is kept
// in a file.
func exact(s *vectors.Set, dir, slot string, queries []float32) (*truth, error) {
	path := filepath.Join(dir, "truth-"+slot+".json")
	t := &truth{}
	if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, t) == nil && len(t.Kth)*s.Dim == len(queries) {
		return t, nil
	}
	n := len(queries) / s.Dim
	t.Kth = make([]float64, n)
	_ = par.Each(context.Background(), par.Work{N: n}, func(i int) error {
		t.Kth[i] = kth(s, queries[i*s.Dim:(i+1)*s.Dim], nil)
		return nil
	})
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	return t, os.WriteFile(path, text, 0o644)
}

// kth is the distance of the k-th nearest row among those that pass, all if pass is nil.
func kth(s *vectors.Set, q []float32, pass []bool) float64 {
	near := vector.NewTopK(4 * k)
	for r := range s.Rows() {
		if pass != nil && !pass[r] {
			continue
		}
		near.Push(uint32(r), vector.L2Squared(q, s.Base[r*s.Dim:(r+1)*s.Dim]))
	}
	best := make([]float64, 0, 4*k)
	for _, c := range near.Append(nil) {
		best = append(best, distance(q, s.Base[int(c.ID)*s.Dim:(int(c.ID)+1)*s.Dim]))
	}
	slices.Sort(best)
	return best[min(k, len(best))-1]
}

// recall is the mean share of the k nearest rows among ids, k of each query.
// Rows count once and their distances are computed here, whatever the system
// said.
func recall(s *vectors.Set, t *truth, queries []float32, ids []uint32) float64 {
	found := 0
	n := len(ids) / k
	for i := range n {
		q := queries[i*s.Dim : (i+1)*s.Dim]
		answer := ids[i*k : (i+1)*k]
		for j, id := range answer {
			if int64(id) >= int64(s.Rows()) || slices.Contains(answer[:j], id) {
				continue
			}
			if distance(q, s.Base[int(id)*s.Dim:(int(id)+1)*s.Dim]) <= t.Kth[i]*(1+1e-9) {
				found++
			}
		}
	}
	return float64(found) / float64(n*k)
}
