package db

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
)

// These tests run their own binary as a child that works on a database and
// says what has been acknowledged, kill it (SIGKILL) at a random moment, and
// look at what it left. A kill takes the process away, not the page cache:
// what has been written to the file stays written, synced or not. So this
// proves that every moment of a commit, a build and a compaction leaves a
// whole database behind, and nothing about power loss.

const (
	envChild = "ANNDB_TEST_CHILD" // what a child does; see childMain
	envPath  = "ANNDB_TEST_PATH"  // the database it does it to
	envKills = "ANNDB_KILLS"      // how many kills TestKill makes
)

// childMain is what the test binary does instead of tests when envChild says
// so. It does not return from the modes that are to be killed.
func childMain(mode string) int {
	path := os.Getenv(envPath)
	var err error
	switch mode {
	case "import", "compact":
		err = childImport(path, mode == "compact")
	case "build", "build sparse":
		err = childBuild(path, killed[mode])
	case "maintain":
		err = childMaintain(path)
	case "hold":
		err = childHold(path)
	case "flips":
		err = childFlips(path)
	case "limit":
		err = childLimit(path)
	case "space":
		err = childSpace(path)
	default:
		err = fmt.Errorf("unknown mode %q", mode)
	}
	if err != nil {
		fmt.Printf("error %v\n", err)
		return 1
	}
	return 0
}

// child is a command that runs this binary in a mode.
func child(t testing.TB, mode, path string, env ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	c := exec.Command(exe)
	c.Env = append(append(os.Environ(), envChild+"="+mode, envPath+"="+path), env...)
	c.Stderr = os.Stderr
	return c
}

const killDim = 2048 // 64 rows a chunk

// killed is the collections whose indexes are built and killed.
var killed = map[string]string{"build": "c", "build sparse": "s"}

// killSparse is the row of the sparse collection "s" that goes with a row of the
// dense one.
func killSparse(r Row) Row {
	r.Vector, r.Features = nil, modelNames(modelSparse(uint64(crc32.ChecksumIEEE(r.Key))))
	return r
}

// killBatch is what batch i puts into the dense collection "c" and, in the form
// of killSparse, into "s", besides the row "last" of c that names it. Every
// batch deletes one row of the batch before and changes rows of earlier ones.
func killBatch(i int) []Row {
	rows := make([]Row, 1+i*7%40)
	for j := range rows {
		rows[j] = Row{
			Key: fmt.Appendf(nil, "row-%d-%d", i, j), Vector: modelVector(uint64(i*100+j), killDim),
			Labels: []string{fmt.Sprintf("batch-%d", i)}, Payload: fmt.Appendf(nil, "payload %d %d", i, j),
		}
	}
	return rows
}

// killChanges are the rows of earlier batches that batch i changes, with their new labels and
// payloads.
func killChanges(i int) (rows []Row) {
	for _, back := range []int{1, 5} {
		if old := killBatch(max(0, i-back)); i >= back && len(old) > 2 {
			r := old[1+i%(len(old)-1)]
			r.Labels, r.Payload = []string{r.Labels[0], "changed"}, fmt.Appendf(nil, "changed by %d", i)
			rows = append(rows, r)
		}
	}
	return rows
}

func putKillBatch(d *DB, i int) error {
	return d.Update(context.Background(), func(b *Tx) error {
		for _, r := range killBatch(i) {
			if err := errors.Join(b.Collection("c").Put(r), b.Collection("s").Put(killSparse(r))); err != nil {
				return err
			}
		}
		if i > 0 {
			key := fmt.Appendf(nil, "row-%d-0", i-1)
			if err := errors.Join(b.Collection("c").Delete(key), b.Collection("s").Delete(key)); err != nil {
				return err
			}
		}
		for _, r := range killChanges(i) {
			for _, coll := range []string{"c", "s"} {
				err := errors.Join(b.Collection(coll).SetLabels(r.Key, r.Labels...), b.Collection(coll).SetPayload(r.Key, r.Payload))
				if err != nil {
					return err
				}
			}
		}
		return b.Collection("c").Put(Row{Key: []byte("last"), Vector: make([]float32, killDim), Payload: strconv.AppendInt(nil, int64(i), 10)})
	})
}

// lastBatch is the number of the last batch, -1 before the first.
func lastBatch(s *Snapshot) (int, error) {
	r, err := s.Collection("c").Get([]byte("last"))
	if errors.Is(err, fail.NoRow) || errors.Is(err, fail.NoCollection) {
		return -1, nil
	} else if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(r.Payload))
}

// createKilled makes the collections, as far as they are missing.
func createKilled(d *DB) error {
	ctx := context.Background()
	for _, err := range []error{
		create(ctx, d, "c", Schema{Dim: killDim}), create(ctx, d, "s", Schema{Named: true}),
	} {
		if err != nil && !errors.Is(err, ErrExists) {
			return err
		}
	}
	return nil
}

// childImport goes on with the batches where the file ends, for ever.
func childImport(path string, compact bool) error {
	fmt.Println("ready")
	d, err := Open(context.Background(), path, nil)
	if err != nil {
		return err
	}
	if err := createKilled(d); err != nil {
		return err
	}
	var last int
	if err := d.View(func(s *Snapshot) (err error) { last, err = lastBatch(s); return err }); err != nil {
		return err
	}
	for i := last + 1; ; i++ {
		if err := putKillBatch(d, i); err != nil {
			return err
		}
		fmt.Printf("batch %d\n", i)
		if compact && i%3 == 2 {
			if err := d.Compact(context.Background(), nil); err != nil {
				return err
			}
			fmt.Println("compacted")
		}
	}
}

// childBuild builds and drops an index of a collection again and again. Another
// one is left alone.
func childBuild(path, coll string) error {
	fmt.Println("ready")
	d, err := Open(context.Background(), path, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for seed := uint64(1); ; seed++ {
		// Even rounds replace the index, odd ones drop it first.
		if _, err := d.Collection(coll).Build(ctx, "new", killBuild(coll, seed), nil); err != nil {
			return err
		}
		fmt.Println("built", seed)
		if seed%2 == 1 {
			continue
		}
		if err := d.Collection(coll).DropIndex(ctx, "new"); err != nil {
			return err
		}
		fmt.Println("dropped", seed)
	}
}

// killBuild is the options of a seed. Of a sparse collection, all kinds of
// indexes that have a seed come in turn.
func killBuild(coll string, seed uint64) IndexOptions {
	if coll == "s" {
		tree := Trees{Params: budget.Params{BAC: budget.BACParams{Budget: 3, Rounds: 2}}, Seed: seed}
		return []IndexOptions{
			&LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5}, Seed: seed}, treesOf(budget.AT, tree), treesOf(budget.PT, tree),
		}[seed%3]
	}
	return &Forest{Learner: "rp", Trees: 4, Depth: 3, LeafNeighbors: 5, ListNeighbors: 4, NoRotation: true, NoSketches: true, Members: true, NoTune: true, Seed: seed}
}

// killSeed returns the seed of options made by killBuild, 0 for nil.
func killSeed(o IndexOptions) uint64 {
	switch o := o.(type) {
	case *Forest:
		return o.Seed
	case *LCIF:
		return o.Seed
	case *Trees:
		return o.Seed
	}
	return 0
}

// runAndKill starts a child and kills it a random time after it is ready.
// It returns the lines that the child wrote before it died.
func runAndKill(t *testing.T, mode, path string, within time.Duration) []string {
	t.Helper()
	c := child(t, mode, path)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	ready := make(chan struct{})
	var lines []string
	var wg sync.WaitGroup
	wg.Go(func() {
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				break // a line cut short was not acknowledged
			}
			line = strings.TrimSpace(line)
			if line == "ready" {
				close(ready)
				continue
			}
			lines = append(lines, line)
		}
	})
	select {
	case <-ready:
	case <-time.After(2 * time.Minute):
		t.Error("the child did not start within two minutes")
	}
	time.Sleep(rand.N(within))
	if err := c.Process.Kill(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	_ = c.Wait() // it was killed; that is no news
	for _, l := range lines {
		if strings.HasPrefix(l, "error") {
			t.Fatalf("child %s: %s", mode, l)
		}
	}
	return lines
}

// logged collects log messages.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// mustLeaveNothing checks that only the database is in its directory, that no
// object is marked, and that every stored object belongs to something.
func mustLeaveNothing(d *DB) error {
	entries, err := os.ReadDir(filepath.Dir(d.Path()))
	if err != nil {
		return err
	}
	for _, e := range entries {
		// A kill during creation may leave its temporary file: nobody can know
		// that no other process is about to link it.
		if e.Name() != filepath.Base(d.Path()) && !strings.Contains(e.Name(), ".new-") {
			return fmt.Errorf("left behind: %s", e.Name())
		}
	}
	return viewTx(d, func(tx *bbolt.Tx) error {
		if marks := layout.OrphanMarks(tx); len(marks) > 0 {
			return fmt.Errorf("objects %v are still marked", marks)
		}
		cat, err := layout.ReadCatalog(tx)
		if err != nil {
			return err
		}
		known := map[uint64]bool{0: true}
		for _, c := range cat.Collections {
			known[c.ID] = true
			for _, x := range c.Indexes {
				for _, object := range x.Objects() {
					known[object] = true
				}
			}
		}
		if err := tx.Bucket(layout.BucketLabels).ForEach(func(k, v []byte) error {
			object, err := layout.LabelObject("", k, v)
			known[object] = true
			return err
		}); err != nil {
			return err
		}
		for _, name := range [][]byte{layout.BucketBlocks, layout.BucketSets, layout.BucketTail, layout.BucketMeta} {
			if err := tx.Bucket(name).ForEach(func(k, _ []byte) error {
				if object, kind, _ := codec.ParseKey(k); !known[object] {
					return fmt.Errorf("orphan of object %d, section %v in bucket %q", object, kind, name)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// mustHoldBatches checks that the batches 0..last are there, whole, and
// nothing else.
func mustHoldBatches(s *Snapshot, last int) error {
	want := map[string]Row{}
	for i := range last + 1 {
		for _, r := range killBatch(i) {
			want[string(r.Key)] = r
		}
		if i > 0 {
			delete(want, fmt.Sprintf("row-%d-0", i-1))
		}
		for _, r := range killChanges(i) {
			want[string(r.Key)] = r
		}
	}
	sparse := maps.Clone(want)
	for r, err := range s.Collection("s").Rows(context.Background(), nil) {
		if err != nil {
			return err
		}
		w, ok := sparse[string(r.Key)]
		if w = killSparse(w); !ok || !slices.Equal(sortedFeatures(r.Features), sortedFeatures(w.Features)) || !slices.Equal(r.Labels, w.Labels) || !bytes.Equal(r.Payload, w.Payload) {
			return fmt.Errorf("sparse row %q is not what was written", r.Key)
		}
		delete(sparse, string(r.Key))
	}
	if len(sparse) > 0 {
		return fmt.Errorf("%d sparse rows of %d batches are missing", len(sparse), last+1)
	}
	for r, err := range s.Collection("c").Rows(context.Background(), nil) {
		if err != nil {
			return err
		}
		if string(r.Key) == "last" {
			continue
		}
		w, ok := want[string(r.Key)]
		if !ok || !slices.Equal(r.Vector, w.Vector) || !slices.Equal(r.Labels, w.Labels) || !bytes.Equal(r.Payload, w.Payload) {
			return fmt.Errorf("row %q is not what was written", r.Key)
		}
		delete(want, string(r.Key))
	}
	if len(want) > 0 {
		return fmt.Errorf("%d rows of %d batches are missing", len(want), last+1)
	}
	return nil
}

// sortedFeatures is a row's features in the order of their names.
func sortedFeatures(f []Feature) []Feature {
	return slices.SortedFunc(slices.Values(f), func(a, b Feature) int { return strings.Compare(a.Name, b.Name) })
}

// kills is how many kills TestKill makes.
func kills(t *testing.T) int {
	if s := os.Getenv(envKills); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s: %v", envKills, err)
		}
		return n
	}
	if testing.Short() {
		return 8
	}
	return 24
}

// TestKill kills imports, imports with compactions, and builds, in turn and on
// files that earlier kills have left. ANNDB_KILLS says how often.
func TestKill(t *testing.T) {
	n := kills(t)
	start := time.Now()
	t.Run("import", func(t *testing.T) { killImport(t, "import", n-3*(n/4)) })
	t.Run("compact", func(t *testing.T) { killImport(t, "compact", n/4) })
	t.Run("build", func(t *testing.T) { killBuilds(t, "build", n/4) })
	t.Run("build sparse", func(t *testing.T) { killBuilds(t, "build sparse", n/4) })
	t.Logf("%d kills in %v", n, time.Since(start).Round(time.Millisecond))
}

func killImport(t *testing.T, mode string, n int) {
	dir := t.TempDir()
	var path string
	acked, half, beyond, fresh := 0, 0, 0, 0
	known := -1 // last batch of the file before the kill
	for i := range n {
		if i%8 == 0 {
			// A new file, so that creating one is killed as well.
			known = -1
			path = filepath.Join(dir, fmt.Sprint(i), "kill.anndb")
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
		}
		last, compacted := known, false
		for _, l := range runAndKill(t, mode, path, 120*time.Millisecond) {
			if l == "compacted" {
				compacted = true
			} else if _, err := fmt.Sscanf(l, "batch %d", &last); err != nil {
				t.Fatalf("line %q: %v", l, err)
			}
		}
		if compacted {
			half++
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			fresh++
		}
		d, err := Open(t.Context(), path, nil)
		if err != nil {
			t.Fatalf("open after kill %d: %v", i, err)
		}
		err = d.View(func(s *Snapshot) error {
			found, err := lastBatch(s)
			if err != nil {
				return err
			}
			if found < last || found > last+1 {
				return fmt.Errorf("batch %d was acknowledged, the file ends with batch %d", last, found)
			}
			acked += last - known
			if found > last {
				beyond++
			}
			known = found
			if found < 0 {
				return nil
			}
			return mustHoldBatches(s, found)
		})
		if err := errors.Join(err, mustCheck(d), mustLeaveNothing(d), d.Close()); err != nil {
			t.Fatalf("after kill %d: %v", i, err)
		}
	}
	t.Logf("%d kills, %d batches acknowledged, none lost; %d commits finished without having been acknowledged; %d kills before there was a file; %d after a compaction",
		n, acked, beyond, fresh, half)
}

func killBuilds(t *testing.T, mode string, n int) {
	coll := killed[mode]
	path := filepath.Join(t.TempDir(), "kill.anndb")
	ctx := context.Background()
	d, err := Open(ctx, path, &Options{NoSync: true})
	must(t, err)
	err = createKilled(d)
	for i := 0; err == nil && i < 8; i++ {
		err = putKillBatch(d, i)
	}
	if err == nil {
		// 100 is an index that predicts and finds neighbours, too.
		_, err = d.Collection(coll).Build(ctx, "old", killBuild(coll, 100), nil)
	}
	must(t, err)
	q := modelVector(1234, killDim)
	p := &query.Params{Method: query.Voting, Votes: 1, NoWiden: true}
	ask := func(d *DB, index string) (hits []Hit, err error) {
		err = d.View(func(s *Snapshot) error {
			if coll == "s" {
				hits, err = askSparse(s, index)
				return err
			}
			hits, _, err = nearest(ctx, s.Collection("c"), Query{Vector: q}, 5, &SearchOptions{Index: index, Params: p})
			return err
		})
		return hits, err
	}
	want, err := ask(d, "old")
	must(t, errors.Join(err, d.Close()))
	orphaned, steps, grown := 0, 0, int64(0)
	held := uint64(0) // seed of the index "new" in the file, 0 for none
	for i := range n {
		lines := runAndKill(t, mode, path, 150*time.Millisecond)
		steps += len(lines)
		// The file holds what the last line says, or the outcome of the step
		// after it, which the child may have finished but not said.
		may := []uint64{held, 1}
		if len(lines) > 0 {
			var what string
			var seed uint64
			if _, err := fmt.Sscan(lines[len(lines)-1], &what, &seed); err != nil {
				t.Fatalf("line %q: %v", lines[len(lines)-1], err)
			}
			switch {
			case what == "dropped":
				may = []uint64{0, seed + 1}
			case seed%2 == 0:
				may = []uint64{seed, 0}
			default:
				may = []uint64{seed, seed + 1}
			}
		}
		log := &logged{}
		d, err := Open(ctx, path, &Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatalf("open after kill %d: %v", i, err)
		}
		if strings.Contains(log.text.String(), "interrupted") {
			orphaned++
		}
		err = func() error {
			got, err := ask(d, "old")
			if err != nil {
				return err
			}
			if !slices.EqualFunc(got, want, func(a, b Hit) bool { return a.Row == b.Row && a.Distance == b.Distance && bytes.Equal(a.Key, b.Key) }) {
				return fmt.Errorf("the old index answers %v, want %v", got, want)
			}
			st, err := d.Stats()
			if err != nil {
				return err
			}
			grown = st.FileBytes
			return d.View(func(s *Snapshot) error {
				info, err := s.Collection(coll).Index("new")
				if err != nil && !errors.Is(err, fail.NoIndex) {
					return err
				}
				if held = killSeed(info.Options); !slices.Contains(may, held) {
					return fmt.Errorf("the index is of seed %d, want one of %d", held, may)
				}
				if held > 0 {
					if _, err := ask(d, "new"); err != nil {
						return err
					}
				}
				return mustHoldBatches(s, 7)
			})
		}()
		if err := errors.Join(err, mustCheck(d), mustLeaveNothing(d), d.Close()); err != nil {
			t.Fatalf("after kill %d: %v", i, err)
		}
	}
	t.Logf("%d kills, %d builds and drops acknowledged, what %d kills left was removed, the file has %d bytes", n, steps, orphaned, grown)
}

// askSparse asks an index of the sparse collection, whatever its kind. Labels
// that it predicts are the keys of the hits.
func askSparse(s *Snapshot, index string) (hits []Hit, err error) {
	ctx := context.Background()
	info, err := s.Collection("s").Index(index)
	if err != nil {
		return nil, err
	}
	q := Query{Features: modelNames(modelSparse(1234))}
	if info.Kind == string(postingsindex.Name) {
		hits, _, err = nearest(ctx, s.Collection("s"), q, 5, &SearchOptions{Index: index})
		return hits, err
	}
	found, _, err := predict(ctx, s.Collection("s"), q, &PredictOptions{Index: index, Top: 5})
	for _, p := range found {
		hits = append(hits, Hit{Key: []byte(p.Label), Distance: p.Score})
	}
	return hits, err
}
