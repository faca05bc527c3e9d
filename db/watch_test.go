package db

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/query"
)

// TestWatch: maintenance measures the recall of a forest when enough rows have changed, tunes again
// when it has fallen, and an answer has the recall that was last measured.
func TestWatch(t *testing.T) {
	const n, dim = 1500, 12
	path := filepath.Join(t.TempDir(), "db")
	rng := rand.New(rand.NewPCG(3, 4))
	row := func() []float32 {
		x := make([]float32, dim)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	next := 0
	put := func(d *DB, count int) {
		t.Helper()
		err := d.Update(t.Context(), func(tx *Tx) error {
			for range count {
				next++
				if err := tx.Collection("c").Put(Row{Key: fmt.Append(nil, next), Vector: row()}); err != nil {
					return err
				}
			}
			return nil
		})
		must(t, err)
	}
	maintain := func(d *DB) (actions []string) {
		t.Helper()
		steps, err := d.Maintain(t.Context(), 0, nil)
		must(t, err)
		for _, s := range steps {
			actions = append(actions, s.Action)
		}
		return actions
	}
	open := func() *DB {
		t.Helper()
		d, err := Open(t.Context(), path, &Options{NoSync: true})
		must(t, err)
		t.Cleanup(func() { d.Close() })
		return d
	}
	d := open()
	must(t, create(t.Context(), d, "c", Schema{Dim: dim}))
	put(d, n)
	builds(t, d, "c", "main", nil)
	put(d, n/100)
	if got := maintain(d); !slices.Equal(got, []string{"insert"}) {
		t.Errorf("a hundredth added: %q", got)
	}
	put(d, n/20)
	if got := maintain(d); len(got) != 2 || got[0] != "insert" || got[1] == "insert" {
		t.Errorf("a twentieth added: %q", got)
	}
	if got := maintain(d); got != nil {
		t.Errorf("nothing changed: %q", got)
	}
	info, err := d.Collection("c").Index("main")
	if err != nil || info.Curve.Rows != next || info.Curve.Queries != n/10 {
		t.Errorf("measured on %d of %d rows, %d queries, %v", info.Curve.Rows, next, info.Curve.Queries, err)
	}
	for i := range n / 15 {
		must(t, d.Update(t.Context(), func(tx *Tx) error {
			return tx.Collection("c").Delete(fmt.Append(nil, 10*i+1))
		}))
	}
	if got := maintain(d); len(got) != 1 {
		t.Errorf("a fifteenth deleted: %q", got)
	}
	must(t, d.Close())
	// A curve that promises too much, whatever settings the tuner chose.
	few := map[string]any{"method": "natural", "trees": 1, "sketch": true, "k": 10, "r": 10, "beam": 10}
	key := codec.Key(objectIn(t, path, "c", "main"), codec.KindManifest, 0)
	editJSON(t, path, key, func(m map[string]any) {
		curve := m["Info"].(map[string]any)["Curve"].(map[string]any)
		delete(curve, "depths")
		delete(curve, "plain")
		curve["points"] = []any{map[string]any{"recall": 0.95, "micros": 1, "params": few}}
	})
	d = open()
	put(d, n/15)
	// If the exact scan is faster than every beam of a high recall, tuning finds none, and the forest is rebuilt.
	if got := maintain(d); len(got) != 2 || got[0] != "insert" || got[1] != "tune" && got[1] != "relearn" {
		t.Errorf("too few places on the beam: %q", got)
	}
	info, err = d.Collection("c").Index("main")
	must(t, err)
	if p, ok := info.Curve.Setting(0.95, 10); !ok || p.Beam <= 10 && p.Method == query.Natural && p.Trees == 1 {
		t.Errorf("tuned to %+v, %t", p, ok)
	}
	if err := d.Check(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
}
