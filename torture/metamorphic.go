package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/torture/internal/ask"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// telling is a seeded sequence of operations and the options it runs under,
// none of which may change an answer.
type telling struct {
	Path string
	Seed uint64
	// Options of db.Open.
	NoSync     bool
	MapReserve int64
	// Background maintains all the while, beside the calls that the sequence
	// has: the answers of what is learned then follow from when it works.
	Background bool
	// Reopen closes and opens the database after every operation, Keep holds
	// a snapshot from each to the next.
	Reopen, Keep bool
	Workers      int
}

// variant draws other options for the same sequence.
func (t telling) variant(rng *rand.Rand) (telling, string) {
	var what []string
	flip := func(name string, b *bool) {
		if rng.IntN(2) == 0 {
			*b = !*b
			what = append(what, name)
		}
	}
	flip("sync", &t.NoSync)
	flip("background", &t.Background)
	flip("reopen", &t.Reopen)
	flip("keep", &t.Keep)
	t.MapReserve = []int64{1 << 20, 1 << 30, 1 << 36}[rng.IntN(3)]
	if t.Keep {
		t.MapReserve = 1 << 36 // a file that outgrows it waits for the snapshot, as documented
	}
	t.Workers = []int{1, 2, 5, 0}[rng.IntN(4)]
	what = append(what, fmt.Sprintf("reserve %d, %d workers", t.MapReserve, t.Workers))
	return t, strings.Join(what, ", ")
}

// told is the answer to a question, a line of the child's.
type told struct {
	Name string
	// Exact says that the answer follows from the rows alone.
	Exact bool
	ask.Answer
}

// tell is the child: it runs the sequence of its argument, and then answers all
// questions, a line each.
func tell(args []string) error {
	var t telling
	if err := json.Unmarshal([]byte(args[0]), &t); err != nil {
		return err
	}
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(t.Seed, 88))
	d, err := t.open()
	if err != nil {
		return err
	}
	var kept *db.Snapshot
	for i := range 14 {
		if err := t.step(ctx, d, rng, i); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
		if kept != nil {
			kept.Release()
			kept = nil
		}
		if t.Keep && !t.Reopen {
			if kept, err = d.Snapshot(); err != nil {
				return err
			}
		}
		if t.Reopen {
			if err := d.Close(); err != nil {
				return err
			}
			if d, err = t.open(); err != nil {
				return err
			}
		}
	}
	if kept != nil {
		kept.Release()
	}
	d.PauseMaintenance()
	err = d.View(func(s *db.Snapshot) error {
		colls, err := ask.Describe(s, t.Seed, 10, 4, 3)
		if err != nil {
			return err
		}
		for _, q := range ask.Questions(colls) {
			a, err := q.Ask(s)
			if err != nil {
				return fmt.Errorf("%s: %w", q.Name, err)
			}
			line, err := json.Marshal(told{q.Name, q.Exact, a})
			if err != nil {
				return err
			}
			fmt.Printf("%s\n", line)
		}
		return nil
	})
	return errors.Join(err, d.Check(ctx, nil, nil), d.Close())
}

func (t telling) open() (*db.DB, error) {
	o := &db.Options{MapReserve: t.MapReserve, Maintenance: &maintenance.Policy{Manual: true}}
	if t.NoSync {
		o.NoSync = true
	}
	if t.Background {
		o.Maintenance = &maintenance.Policy{Every: time.Millisecond, Share: 0.01, CPU: 1}
	}
	return db.Open(context.Background(), t.Path, o)
}

// widest is how many coordinates the widest rows have.
const widest = 600

// tales are the collections of a sequence.
var tales = []struct {
	name   string
	schema db.Schema
}{
	{"bytes", db.Schema{Dim: widest}}, {"floats", db.Schema{Dim: 12, Metric: vector.Cosine}},
	{"terms", db.Schema{Sparse: true}}, {"words", db.Schema{Named: true}},
	{"texts", db.Schema{Dim: 12, Text: &text.Schema{}}},
}

// step is one operation: all draw the same numbers whatever the options.
func (t telling) step(ctx context.Context, d *db.DB, rng *rand.Rand, i int) error {
	switch {
	case i == 0:
		for _, c := range tales {
			if _, err := d.Create(ctx, c.name, c.schema); err != nil {
				return err
			}
		}
		return nil
	case i == 3:
		return t.build(ctx, d)
	case i == 6 || i == 10:
		_, err := d.Maintain(ctx, 0, &db.Run{Workers: t.Workers})
		return err
	case i == 8:
		err := d.Compact(ctx, nil)
		return err
	}
	n := 20 + rng.IntN(120)
	return d.Update(ctx, func(b *db.Tx) error {
		for _, c := range tales {
			for j := range rng.Perm(400)[:n] {
				key := fmt.Appendf(nil, "%s-%03d", c.name, rng.IntN(400)/n*n+j)
				r := tale(rng, c.name)
				if r.Key = key; rng.IntN(6) == 0 {
					if err := b.Collection(c.name).Delete(key); err != nil {
						return err
					}
				} else if err := b.Collection(c.name).Put(r); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// tale draws a row.
func tale(rng *rand.Rand, coll string) db.Row {
	r := db.Row{Labels: []string{fmt.Sprint("label-", rng.IntN(4))}, Payload: []byte{byte(rng.Uint32())}}
	switch coll {
	case "bytes":
		r.Vector = make([]float32, widest)
		for i := range r.Vector {
			r.Vector[i] = float32(rng.IntN(256))
		}
	case "floats", "texts":
		r.Vector = make([]float32, 12)
		for i := range r.Vector {
			r.Vector[i] = float32(rng.NormFloat64())
		}
	}
	switch coll {
	case "texts":
		for range rng.IntN(20) {
			r.Text += fmt.Sprint("word", rng.IntN(1+rng.IntN(60)), " ")
		}
	case "terms", "words":
		for f := range uint32(60) {
			if rng.IntN(6) != 0 {
				continue
			}
			v := float32(1 + rng.IntN(5))
			if coll == "words" {
				r.Features = append(r.Features, vector.Feature{Name: fmt.Sprint("word-", f), Value: v})
			} else {
				r.Sparse.Index, r.Sparse.Value = append(r.Sparse.Index, f), append(r.Sparse.Value, v)
			}
		}
	}
	return r
}

func (t telling) build(ctx context.Context, d *db.DB) error {
	model := index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5, Thresholds: &labels.Thresholds{Single: 0.2, KeepTop: true}}}
	tree := index.Trees{Kind: "at", Params: budget.Params{BAC: budget.BACParams{Budget: 3, Rounds: 2}}}
	grown := func(learner string, plain bool) *index.Forest {
		return &index.Forest{
			Learner: learner, Trees: 3, Depth: 4, LeafNeighbors: 6, ListNeighbors: 5, Members: true, NoTune: true,
			NoRotation: plain, NoSketches: plain, Seed: t.Seed,
		}
	}
	for _, x := range []struct {
		coll, name string
		o          index.Options
	}{
		// The rows of bytes have so many coordinates that principal ones take long.
		{"bytes", "kd", grown("kd", true)}, {"bytes", "rp", grown("rp", true)},
		{"floats", "pca", grown("pca", false)}, {"floats", "rf", grown("rf", false)},
		{"terms", "rows", &index.Postings{}},
		{"terms", "at", &tree},
		{"terms", "linear", &index.LabelTree{Seed: t.Seed}},
		{"words", "rows", nil},
		{"words", "labels", &model},
		{"words", "auto", &index.Auto{LCIF: &index.LCIF{Params: model.Params}, LabelTree: &index.LabelTree{}}},
		{"texts", "kd", grown("kd", false)}, {"texts", "rows", nil}, {"texts", "labels", &model},
	} {
		if _, err := d.Collection(x.coll).Build(ctx, x.name, x.o, &db.Run{Workers: t.Workers}); err != nil {
			return fmt.Errorf("build of %q: %w", x.name, err)
		}
	}
	return nil
}

// answers runs a telling and returns its answers.
func answers(ctx context.Context, e *env, program string, procs int, t telling) (out []told, err error) {
	data, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program, "child", "metamorphic", string(data))
	c.Stderr = e.log.Writer()
	c.Env = append(os.Environ(), fmt.Sprint("GOMAXPROCS=", procs))
	err = lines(c, func(line string) error {
		var a told
		err := json.Unmarshal([]byte(line), &a)
		out = append(out, a)
		return err
	})
	return out, errors.Join(err, os.Remove(t.Path))
}

// rounding is by how much of themselves, or of 1, distances may differ between
// builds with and without assembly: twice the bound of package vector on sums of
// as many products as the widest rows have coordinates.
const rounding = 2 * 4 * widest * 0x1p-24

// agree says whether two answers are the same: to the bit, or, where float32 sums
// were added up by other kernels, up to rounding.
func agree(a, b told, rounded bool) bool {
	if a.Name != b.Name || len(a.Distances) != len(b.Distances) {
		return false
	}
	if a.Digest == b.Digest {
		return true
	}
	if !rounded || len(a.Distances) == 0 {
		return false
	}
	for i, x := range a.Distances {
		x, y := float64(x), float64(b.Distances[i])
		if !(math.Abs(x-y) <= rounding*max(1, math.Abs(x))) {
			return false
		}
	}
	return true
}

// metamorphic runs sequences twice, under different options, in processes with
// different numbers of processors: answers must be the same to the bit. Where one
// of the two maintains in the background, only those are compared that follow from
// the rows alone: exact scans and inverted indexes. So it is, at full scale, where
// one is a build without assembly, and distances may differ by rounding then: its
// kernels add up in another order, and what is learned by sums follows them.
func metamorphic(ctx context.Context, e *env) (t totals, err error) {
	programs := []string{e.self}
	if e.full {
		plain := filepath.Join(e.dir, "torture-purego")
		if out, err := exec.CommandContext(ctx, "go", "build", "-tags", "purego", "-o", plain, "github.com/anndb/anndb/torture").CombinedOutput(); err != nil {
			t.skip("no build without assembly: %v: %.200s", err, out)
		} else {
			programs = append(programs, plain)
		}
	}
	for i := range e.pick(8, 200) {
		rng := e.rng(i)
		base := telling{Path: filepath.Join(e.dir, "a.anndb"), Seed: rng.Uint64(), NoSync: true, Workers: 1}
		other, what := base.variant(rng)
		other.Path = filepath.Join(e.dir, "b.anndb")
		program, procs := programs[rng.IntN(len(programs))], []int{1, 2, 8}[rng.IntN(3)]
		what += fmt.Sprintf(", %d processors, %s", procs, filepath.Base(program))
		want, err := answers(ctx, e, e.self, runtime.GOMAXPROCS(0), base)
		if err != nil {
			return t, fmt.Errorf("pair %d: %w", i, err)
		}
		got, err := answers(ctx, e, program, procs, other)
		if err != nil {
			return t, fmt.Errorf("pair %d, %s: %w", i, what, err)
		}
		if len(got) != len(want) || len(want) < 100 {
			return t, fmt.Errorf("pair %d, %s: %d answers, %d", i, what, len(got), len(want))
		}
		for j := range want {
			if !want[j].Exact && (other.Background || program != e.self) {
				continue
			}
			t.add("answers compared", 1)
			if !agree(got[j], want[j], program != e.self) {
				return t, fmt.Errorf("pair %d, %s: %+v, want %+v", i, what, got[j], want[j])
			}
		}
		t.add("pairs", 1)
		if program != e.self {
			t.add("pairs with a build without assembly", 1)
		}
	}
	return t, nil
}
