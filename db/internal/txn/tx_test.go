package txn_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/vector"
)

// TestUpdateRunsAgain: a transaction that has read what another one changes before
// it is committed runs again and sees the change.
func TestUpdateRunsAgain(t *testing.T) {
	row := func(key, payload string) db.Row {
		return db.Row{Key: []byte(key), Vector: []float32{1, 2}, Payload: []byte(payload)}
	}
	read := func(b *db.Tx) string {
		r, err := b.Collection("c").Get([]byte("k"))
		if errors.Is(err, db.ErrNotFound) {
			return "nothing"
		}
		if err != nil {
			t.Error(err)
		}
		return string(r.Payload)
	}
	has := func(b *db.Tx) string {
		ok, err := b.Collection("c").Has([]byte("k"))
		if err != nil {
			t.Error(err)
		}
		return strconv.FormatBool(ok)
	}
	put := func(b *db.Tx) error { return b.Collection("c").Put(row("k", "new")) }
	remove := func(b *db.Tx) error { return b.Collection("c").Delete([]byte("k")) }
	other := func(b *db.Tx) error { return b.Collection("c").Put(row("other", "")) }
	relabel := func(b *db.Tx) error { return b.Collection("c").SetLabels([]byte("k"), "new") }
	repay := func(b *db.Tx) error { return b.Collection("c").SetPayload([]byte("k"), []byte("new")) }
	labels := func(b *db.Tx) string {
		r, err := b.Collection("c").Get([]byte("k"))
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprint(r.Labels)
	}
	set := func(b *db.Tx) string {
		err := b.Collection("c").SetLabels([]byte("k"), "set")
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			t.Error(err)
		}
		return fmt.Sprint(err == nil)
	}
	for _, test := range []struct {
		name   string
		exists bool
		read   func(*db.Tx) string
		change func(*db.Tx) error
		seen   []string
	}{
		{"replaced", true, read, put, []string{"old", "new"}},
		{"deleted", true, read, remove, []string{"old", "nothing"}},
		{"added", false, read, put, []string{"nothing", "new"}},
		{"replaced, by Has", true, has, put, []string{"true", "true"}},
		{"deleted, by Has", true, has, remove, []string{"true", "false"}},
		{"added, by Has", false, has, put, []string{"false", "true"}},
		{"relabelled", true, labels, relabel, []string{"[]", "[new]"}},
		{"payload changed", true, read, repay, []string{"old", "new"}},
		{"relabelled, by Has", true, has, relabel, []string{"true", "true"}},
		{"replaced, by SetLabels", true, set, put, []string{"true", "true"}},
		{"relabelled, by SetLabels", true, set, relabel, []string{"true", "true"}},
		{"deleted, by SetLabels", true, set, remove, []string{"true", "false"}},
		{"added, by SetLabels", false, set, put, []string{"false", "true"}},
		{"another key", true, read, other, []string{"old"}},
		{"deleted without having been there", false, read, remove, []string{"nothing"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := dbtest.NewBed(t, vector.L2, 2)
			if test.exists {
				b.Must(b.D.Update(t.Context(), func(b *db.Tx) error { return b.Collection("c").Put(row("k", "old")) }))
			}
			var seen []string
			b.Must(b.D.Update(t.Context(), func(tx *db.Tx) error {
				seen = append(seen, test.read(tx))
				if len(seen) == 1 {
					b.Must(b.D.Update(t.Context(), test.change))
				}
				return tx.Collection("c").Put(row("written", fmt.Sprint(len(seen))))
			}))
			if !slices.Equal(seen, test.seen) {
				t.Errorf("the transaction saw %q, want %q", seen, test.seen)
			}
			b.Must(b.D.View(func(s *db.Snapshot) error {
				r, err := s.Collection("c").Get([]byte("written"))
				if string(r.Payload) != fmt.Sprint(len(test.seen)) {
					t.Errorf("the run %q was written, want the last one", r.Payload)
				}
				return err
			}))
		})
	}
}

// TestCounters increments counters from several goroutines while the file is
// compacted and rows get new numbers. No increment may be lost.
func TestCounters(t *testing.T) {
	const goroutines, increments, counters = 6, 40, 3
	b := dbtest.NewBed(t, vector.L2, 2)
	done := make(chan struct{})
	var writers, compactor sync.WaitGroup
	for g := range goroutines {
		writers.Go(func() {
			for i := range increments {
				key := fmt.Appendf(nil, "counter-%d", (g+i)%counters)
				if err := b.D.Update(t.Context(), func(tx *db.Tx) error {
					n := 0
					r, err := tx.Collection("c").Get(key)
					if err == nil {
						n, err = strconv.Atoi(string(r.Payload))
					}
					if err != nil && !errors.Is(err, db.ErrNotFound) {
						return err
					}
					if err == nil && i%2 == 0 {
						return tx.Collection("c").SetPayload(key, fmt.Append(nil, n+1))
					}
					return tx.Collection("c").Put(db.Row{Key: key, Vector: []float32{float32(n), 1}, Payload: fmt.Append(nil, n+1)})
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	compactor.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if err := b.D.Compact(t.Context(), &db.CompactOptions{Reorder: true}); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	writers.Wait()
	close(done)
	compactor.Wait()
	sum := 0
	b.Must(b.D.View(func(s *db.Snapshot) error {
		for r, err := range s.Collection("c").Rows(t.Context(), nil) {
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(r.Payload))
			if err != nil {
				return err
			}
			sum += n
		}
		return nil
	}))
	if sum != goroutines*increments {
		t.Errorf("%d increments are left of %d", sum, goroutines*increments)
	}
}

// TestKeys lists keys by prefix and from a start key.
func TestKeys(t *testing.T) {
	b := dbtest.NewBed(t, vector.L2, 2)
	keys := []string{"a", "b", "b/1", "b/2", "b/22", "b\xff", "c"}
	dbtest.Fill(t, b.D, "c", 0, len(keys), func(i int) db.Row {
		return db.Row{Key: []byte(keys[i]), Vector: []float32{1, 2}}
	})
	for _, test := range []struct {
		prefix, from string
		want         []string
	}{
		{"", "", keys},
		{"b", "", keys[1:6]},
		{"b/", "", keys[2:5]},
		{"", "b/2", keys[3:]},
		{"", "b/10", keys[3:]},
		{"b/", "b/2", keys[3:5]},
		{"b/", "a", keys[2:5]},
		{"b/", "c", nil},
		{strings.Repeat("x", 600), "", nil},
	} {
		b.Must(b.D.View(func(s *db.Snapshot) error {
			var got []string
			for k, err := range s.Collection("c").Keys([]byte(test.prefix), []byte(test.from)) {
				if err != nil {
					return err
				}
				got = append(got, string(k))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("prefix %q from %q: keys %q, want %q", test.prefix, test.from, got, test.want)
			}
			return nil
		}))
	}
}
