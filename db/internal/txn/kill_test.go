package txn_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
)

// envKilled names the database that a child process works on.
const envKilled = "ANNDB_TEST_KILLED"

func TestMain(m *testing.M) {
	if path := os.Getenv(envKilled); path != "" {
		fmt.Println("error", work(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// batch is what transaction i puts into the collections "dense" and "sparse".
func batch(i int) (rows []db.Row) {
	for j := range 1 + i*7%10 {
		rows = append(rows, db.Row{
			Key: fmt.Appendf(nil, "row-%d-%d", i, j), Vector: dbtest.Vector(uint64(i*100+j), 2048), // 64 rows a chunk
			Labels: []string{fmt.Sprint("batch-", i%5)}, Payload: fmt.Append(nil, i, j),
		})
	}
	return rows
}

// work commits transactions where the file ends, each of which deletes a row of the one before, and builds,
// maintains or compacts in between.
func work(path string) error {
	ctx := context.Background()
	d, err := dbtest.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for name, schema := range map[string]db.Schema{"dense": {Dim: 2048}, "sparse": {Named: true}} {
		if err := dbtest.Create(ctx, d, name, schema); err != nil && !errors.Is(err, db.ErrExists) {
			return err
		}
	}
	last, err := lastBatch(d)
	for i := last + 1; err == nil; i++ {
		if err = putBatch(d, i); err != nil {
			break
		}
		fmt.Println("batch", i)
		switch i % 4 {
		case 0:
			o := &db.Forest{Learner: "rp", Trees: 4, NoRotation: true, NoSketches: true, NoTune: true}
			_, err = d.Collection("dense").Build(ctx, "i", o, nil)
		case 1:
			_, err = d.Collection("sparse").Build(ctx, "i", nil, nil)
		case 2:
			_, err = d.Maintain(ctx, 0, nil)
		default:
			err = d.Compact(ctx, nil)
		}
	}
	return err
}

func putBatch(d *db.DB, i int) error {
	return d.Update(context.Background(), func(tx *db.Tx) error {
		for _, r := range batch(i) {
			s := r
			s.Vector, s.Features = nil, dbtest.Named(dbtest.Sparse(uint64(i)))
			if err := errors.Join(tx.Collection("dense").Put(r), tx.Collection("sparse").Put(s)); err != nil {
				return err
			}
		}
		if i == 0 {
			return nil
		}
		key := fmt.Appendf(nil, "row-%d-0", i-1)
		return errors.Join(tx.Collection("dense").Delete(key), tx.Collection("sparse").Delete(key))
	})
}

// lastBatch returns the number of the last batch, which has a row 0, -1 before the first.
func lastBatch(d *db.DB) (int, error) {
	last := -1
	for k, err := range d.Collection("dense").Keys([]byte("row-"), nil) {
		if errors.Is(err, db.ErrNotFound) {
			return -1, nil
		} else if err != nil {
			return 0, err
		}
		if key := string(k); key[len(key)-2:] == "-0" {
			i, err := strconv.Atoi(key[4 : len(key)-2])
			if err != nil {
				return 0, err
			}
			last = max(last, i)
		}
	}
	return last, nil
}

// mustHold fails unless both collections have the rows of the batches up to last, and no others.
func mustHold(t *testing.T, d *db.DB, last int) {
	t.Helper()
	want := 0
	for i := range last + 1 {
		for j, r := range batch(i) {
			if j == 0 && i < last {
				continue
			}
			want++
			got, err1 := d.Collection("dense").Get(r.Key)
			words, err2 := d.Collection("sparse").Get(r.Key)
			dbtest.Must(t, errors.Join(err1, err2))
			r.Row = got.Row
			if fmt.Sprint(got) != fmt.Sprint(r) || string(words.Payload) != string(r.Payload) {
				t.Fatalf("row %s is not what was written", r.Key)
			}
		}
	}
	for _, coll := range []string{"dense", "sparse"} {
		if n, err := d.Collection(coll).Count(t.Context(), nil); err != nil || n != want {
			t.Fatalf("%s has %d rows, want %d, %v", coll, n, want, err)
		}
	}
}

// TestKill kills (SIGKILL) a process that commits, builds, maintains and compacts, at random moments and on
// files that earlier kills have left: no acknowledged transaction is lost, none is there in part, and nothing
// else is left. What a kill has written to the file stays written, so this proves nothing about power
// failures; the torture bench does.
func TestKill(t *testing.T) {
	kills := 10
	if testing.Short() {
		kills = 4
	}
	exe, err := os.Executable()
	dbtest.Must(t, err)
	path, known := filepath.Join(t.TempDir(), "kill.anndb"), -1
	for i := range kills {
		c := exec.Command(exe)
		c.Env, c.Stderr = append(os.Environ(), envKilled+"="+path), os.Stderr
		out, err := c.StdoutPipe()
		dbtest.Must(t, errors.Join(err, c.Start()))
		acked := known
		lines := bufio.NewScanner(out)
		for wait := rand.N(6); lines.Scan(); { // a line cut short was not acknowledged
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "batch %d", &n); err == nil {
				acked = n
			} else if lines.Text() != "ready" {
				t.Fatal(lines.Text())
			}
			if wait--; wait < 0 {
				time.Sleep(rand.N(30 * time.Millisecond))
				_ = c.Process.Kill()
			}
		}
		_ = c.Wait() // which reports the kill
		d, err := dbtest.Open(t.Context(), path, nil)
		dbtest.Must(t, err)
		if known, err = lastBatch(d); err != nil || known < acked || known > acked+1 {
			t.Fatalf("kill %d: batch %d was acknowledged, the file ends with batch %d, %v", i, acked, known, err)
		}
		if known >= 0 {
			mustHold(t, d, known)
		}
		dbtest.Must(t, dbtest.Closed(d, dbtest.Check(d), dbtest.LeavesNothing(d)))
	}
}
