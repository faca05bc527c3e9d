package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/forestbench"
)

// scan calls f for every live row of a collection that passes a filter and stops where the
// caller interrupts.
func scan(a *app, s *db.Snapshot, coll string, filter *db.Filter, f func(*db.Row) error) error {
	for row, err := range s.Collection(coll).Rows(a.ctx, filter) {
		if err == nil {
			err = f(&row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sampleRows keeps n random rows of a matrix, all if it has no more.
func sampleRows(m *forestbench.Matrix, n int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x73616d70))
	for i := range min(n, m.N-1) {
		j := i + rng.IntN(m.N-i)
		for d := range m.D {
			m.Data[i*m.D+d], m.Data[j*m.D+d] = m.Data[j*m.D+d], m.Data[i*m.D+d]
		}
	}
	m.N = min(n, m.N)
	m.Data = m.Data[:m.N*m.D]
}

// loadRows reads all live vectors of a collection into memory.
func loadRows(a *app, s *db.Snapshot, info db.CollectionInfo) (*forestbench.Matrix, error) {
	if info.Live == 0 {
		return nil, fmt.Errorf("collection %q is empty", info.Name)
	}
	m := &forestbench.Matrix{Data: make([]float32, 0, info.Live*info.Dim), D: info.Dim}
	err := scan(a, s, info.Name, nil, func(r *db.Row) error {
		m.Data = append(m.Data, r.Vector...)
		m.N++
		if m.N%1024 == 0 {
			a.progress.Update("read rows", m.N, info.Live)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read collection %q: %w", info.Name, err)
	}
	return m, nil
}
