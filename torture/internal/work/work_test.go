package work

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
)

// TestVerify runs a workload with all of its steps; Verify must accept what
// it left, and nothing else.
func TestVerify(t *testing.T) {
	ctx := context.Background()
	for name, s := range map[string]Script{"small": Small(1), "default": Default(1)} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.anndb")
			d, err := db.Open(t.Context(), path, Options())
			if err != nil {
				t.Fatal(err)
			}
			last := 0
			steps := map[string]int{}
			err = s.Run(ctx, d, Plan{Every: 2, Steps: []string{Build, Maintain, Compact, Backup, Drop, Build, Reorder, Maintain}, Until: 15}, func(n int, step string) {
				last = n
				steps[step]++
			})
			if err != nil || last != 15 || steps[Build] != 2 || steps[Drop] != 1 {
				t.Fatalf("%d batches, steps %v: %v", last, steps, err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if n, err := s.Verify(ctx, path, 14, 1); err != nil || n != 15 {
				t.Fatalf("%d batches: %v", n, err)
			}
			if n, err := s.Verify(ctx, BackupPath(path), 8, 0); err != nil {
				t.Fatalf("backup: %d batches: %v", n, err)
			}
			for _, acked := range []int{16, 13} {
				if _, err := s.Verify(ctx, path, acked, 1); err == nil || !strings.Contains(err.Error(), "the file holds 15") {
					t.Errorf("15 batches where %d were acknowledged: %v", acked, err)
				}
			}
			if _, err := (Script{Seed: s.Seed + 1, Dim: s.Dim, Keys: s.Keys, Changes: s.Changes, Payload: s.Payload}).Verify(ctx, path, 15, 0); err == nil {
				t.Error("the rows of another seed are as good")
			}
			// One change of a batch missing is half a batch.
			if d, err = db.Open(t.Context(), path, Options()); err != nil {
				t.Fatal(err)
			}
			err = d.Update(ctx, func(b *db.Tx) error { return b.Collection(Sparse).Delete([]byte(liveKey(s, 15))) })
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.VerifyDB(ctx, d); err == nil || !strings.Contains(err.Error(), Sparse) {
				t.Errorf("a row is missing: %v", err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestVerifyEarly verifies after every batch, the first ones included, when
// queries have features that the database has never seen.
func TestVerifyEarly(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(4) {
		s := Small(seed)
		d, err := db.Open(ctx, filepath.Join(t.TempDir(), "a.anndb"), &db.Options{NoSync: true, MapReserve: 1 << 32, Maintenance: &maintenance.Policy{Manual: true}})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Run(ctx, d, Plan{Until: 6}, func(n int, _ string) {
			if got, err := s.VerifyDB(ctx, d); err != nil || got != n {
				t.Fatalf("seed %d, %d batches, %d found: %v", seed, n, got, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func liveKey(s Script, n int) string {
	for k := range s.model(n).rows[Sparse] {
		return k
	}
	return ""
}
