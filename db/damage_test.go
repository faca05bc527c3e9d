package db

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// The damage tests flip bits of a small database and cut it short, and ask it
// everything. What follows must be the right answer or a named error; not a
// wrong answer, not the death of the process, not a hang. Each piece of damage
// is tried in a child process, which may die or hang without taking the tests
// along.

const envFlips = "ANNDB_FLIPS" // how many bits TestDamage flips; all candidates when "all"

// damaged is a database that is damaged.
type damaged struct {
	write     func(path string) error
	questions func() []question
	// row is put into a collection after the damage.
	coll string
	row  Row
	flips,
	short int // how many bits are flipped, and with -short
}

// damages are the databases by a collection that each alone has.
var damages = map[string]damaged{
	"small": {damageDB, questions, "small", Row{Vector: modelVector(9, 8)}, 400, 100},
	"terms": {sparseDamageDB, sparseQuestions, "terms", Row{Sparse: modelSparse(9)}, 240, 60},
}

// damagedOf tells which one a file is.
func damagedOf(d *DB) (out damaged, err error) {
	err = d.View(func(s *Snapshot) error {
		for _, c := range s.Collections() {
			if x, ok := damages[c.Name]; ok {
				out = x
			}
		}
		return nil
	})
	return out, err
}

// damageDB writes the dense database that is damaged: sealed chunks of bytes and of
// floats, tails, keys and labels so long that their buckets have branch pages,
// tombstones, indexes with every section there is, free pages.
func damageDB(path string) error {
	ctx := context.Background()
	d, err := Open(ctx, path, &Options{NoSync: true})
	if err != nil {
		return err
	}
	put := func(coll string, n, dim int, whole bool) error {
		return d.Update(ctx, func(b *Tx) error {
			for i := range n {
				seed := uint64(4 * i)
				if whole {
					seed++
				}
				r := Row{
					Key: damageKey(i), Vector: modelVector(seed, dim), Payload: bytes.Repeat([]byte{byte(i)}, i*3),
					Labels: []string{damageLabel(i % 40), "all"},
				}
				if err := b.Collection(coll).Put(r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	build := func(coll, index string, o *Forest) error {
		o.Trees, o.Depth, o.LeafNeighbors, o.ListNeighbors = 3, 2, 4, 3
		o.Members, o.NoTune = true, true
		_, err := d.Collection(coll).Build(ctx, index, o, nil)
		return err
	}
	steps := []func() error{
		func() error { return create(ctx, d, "bytes", Schema{Dim: 4096}) },
		func() error {
			return create(ctx, d, "floats", Schema{Dim: 8192, Metric: vector.Cosine})
		},
		func() error {
			return create(ctx, d, "small", Schema{Dim: 8, Metric: vector.InnerProduct})
		},
		func() error { return put("bytes", 40, 4096, true) },
		func() error { return put("floats", 18, 8192, false) },
		func() error { return put("small", 70, 8, false) },
		func() error {
			return d.Update(ctx, func(b *Tx) error {
				return errors.Join(b.Collection("bytes").Delete(damageKey(3)), b.Collection("bytes").Delete(damageKey(39)), b.Collection("small").Delete(damageKey(7)))
			})
		},
		func() error { return build("small", "kd", &Forest{Coordinates: 4, Quantize: true}) },
		func() error {
			return build("small", "pca", &Forest{Learner: "pca", NoSketches: true})
		},
		func() error {
			return build("bytes", "rp", &Forest{Learner: "rp", NoRotation: true, NoSketches: true})
		},
		func() error { return put("small", 2, 8, false) }, // rows that the indexes do not cover
	}
	for _, s := range steps {
		if err := s(); err != nil {
			return errors.Join(err, d.Close())
		}
	}
	return errors.Join(mustCheck(d), d.Close())
}

func damageKey(i int) []byte     { return fmt.Appendf(nil, "%s-%03d", strings.Repeat("k", 400), i) }
func damageLabel(i int) string   { return fmt.Sprintf("%s-%02d", strings.Repeat("l", 500), i) }
func damageRows() map[string]int { return map[string]int{"bytes": 40, "floats": 18, "small": 70} }

// question is something a snapshot can be asked; the answer is text.
type question struct {
	name string
	ask  func(s *Snapshot) (string, error)
}

// typedDamage says whether err names damage.
func typedDamage(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, fail.Truncated) || errors.Is(err, ErrNotDatabase) || errors.Is(err, fail.NewerFormat)
}

func rowText(r Row) string {
	return fmt.Sprintf("%d %s %v %v %v %q %x", r.Row, r.Key, crc32.ChecksumIEEE(codec.Bytes(r.Vector)), r.Sparse, r.Features, r.Labels, r.Payload)
}

func hitsText(hits []Hit) string {
	var b strings.Builder
	for _, h := range hits {
		fmt.Fprintf(&b, "%s %d %v;", h.Key, h.Row, h.Distance)
	}
	return b.String()
}

// questions is everything there is to ask about the database of damageDB.
func questions() []question {
	ctx := context.Background()
	var out []question
	add := func(name string, ask func(s *Snapshot) (string, error)) { out = append(out, question{name, ask}) }
	add("collections", func(s *Snapshot) (string, error) { return fmt.Sprintf("%+v", s.Collections()), nil })
	for coll, n := range damageRows() {
		dim := map[string]int{"bytes": 4096, "floats": 8192, "small": 8}[coll]
		q := modelVector(8001, dim)
		numbers := make([]int, n+1)
		for i := range numbers {
			numbers[i] = i
		}
		out = append(out, rowQuestions(coll, numbers)...)
		add("indexes "+coll, func(s *Snapshot) (string, error) {
			l, err := s.Collection(coll).Indexes()
			if err != nil {
				return "", err
			}
			text, err := json.Marshal(l) // printing would show the address of options
			return string(text), err
		})
		search := func(name string, k int, o SearchOptions) {
			add("search "+coll+" "+name, func(s *Snapshot) (string, error) {
				hits, _, err := nearest(ctx, s.Collection(coll), Query{Vector: q}, k, &o)
				return hitsText(hits), err
			})
		}
		search("flat", 10, SearchOptions{Index: Flat})
		for i := range 40 {
			search(fmt.Sprint("label ", i), 2, SearchOptions{Index: Flat, Where: HasLabel(damageLabel(i))})
		}
		for _, index := range map[string][]string{"bytes": {"rp"}, "small": {"kd", "pca"}}[coll] {
			search(index+" natural", 5, SearchOptions{Index: index, Params: &query.Params{Tau: 0.1, Sketch: true, Hops: 2, NoWiden: true}})
			search(index+" zero", 5, SearchOptions{Index: index, Params: &query.Params{Method: query.NaturalZero, Quant: true, NoWiden: true}})
			search(index+" voting", 5, SearchOptions{Index: index, Params: &query.Params{Method: query.Voting, Votes: 1, NoWiden: true}})
		}
	}
	return out
}

// rowQuestions is what there is to ask about the rows of a collection, those of
// the given numbers one by one.
func rowQuestions(coll string, numbers []int) []question {
	var out []question
	add := func(name string, ask func(s *Snapshot) (string, error)) { out = append(out, question{name, ask}) }
	for _, i := range numbers {
		key := damageKey(i)
		add(fmt.Sprintf("get %s %d", coll, i), func(s *Snapshot) (string, error) {
			r, err := s.Collection(coll).Get(key)
			if errors.Is(err, fail.NoRow) {
				return "not found", nil
			}
			return rowText(r), err
		})
	}
	add("rows "+coll, func(s *Snapshot) (string, error) {
		var b strings.Builder
		for r, err := range s.Collection(coll).Rows(context.Background(), nil) {
			if err != nil {
				return "", err
			}
			b.WriteString(rowText(r))
		}
		return b.String(), nil
	})
	add("keys "+coll, func(s *Snapshot) (string, error) {
		var b strings.Builder
		for k, err := range s.Collection(coll).Keys(nil, nil) {
			if err != nil {
				return "", err
			}
			b.Write(k)
		}
		return b.String(), nil
	})
	add("labels "+coll, func(s *Snapshot) (string, error) {
		l, err := s.Collection(coll).Labels()
		return fmt.Sprint(l), err
	})
	return out
}

// outcome of one piece of damage.
type outcome string

const (
	right      outcome = "right answers"
	openError  outcome = "error at open"
	opError    outcome = "error at use"
	wrong      outcome = "WRONG ANSWER"
	untyped    outcome = "UNTYPED ERROR"
	died       outcome = "DIED"
	hung       outcome = "HUNG"
	checkMiss  outcome = "NOT FOUND BY CHECK"
	afterWrite         = " after a write"
)

// childFlips damages copies of the database at path as its input tells and
// reports what happened, a line before and a line after each.
func childFlips(path string) error {
	pristine, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	d, err := Open(context.Background(), path, &Options{ReadOnly: true})
	if err != nil {
		return err
	}
	kind, err := damagedOf(d)
	if err != nil {
		return err
	}
	qs, want := kind.questions(), map[string]string{}
	err = d.View(func(s *Snapshot) error {
		for _, q := range qs {
			a, err := q.ask(s)
			if err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			want[q.name] = a
		}
		return nil
	})
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}
	work := path + "." + strconv.Itoa(os.Getpid())
	defer os.Remove(work)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		f := strings.Fields(in.Text())
		a, err1 := strconv.ParseInt(f[2], 10, 64)
		b, err2 := strconv.Atoi(f[3])
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		fmt.Println("start", f[0])
		damage := func() []byte {
			if f[1] == "flip" {
				data := bytes.Clone(pristine)
				data[a] ^= 1 << b
				return data
			}
			return pristine[:a]
		}
		res, detail, checked := tryDamage(kind, work, damage, f[1] == "cut", b == 1, pristine, qs, want)
		fmt.Printf("done %s\t%s\t%v\t%q\n", f[0], res, checked, detail)
	}
	return in.Err()
}

// tryDamage asks a damaged file everything. checked says whether Check, or
// Open, found the damage.
//
// With cut the file is whole when it is opened, and with warm also when it is
// asked everything once, and is cut short afterwards.
func tryDamage(kind damaged, work string, damage func() []byte, cut, warm bool, pristine []byte, qs []question, want map[string]string) (res outcome, detail string, checked bool) {
	data := damage()
	whole := data
	if cut {
		whole = pristine
	}
	if err := os.WriteFile(work, whole, 0o600); err != nil {
		return untyped, err.Error(), false
	}
	d, err := Open(context.Background(), work, &Options{ReadOnly: true, MapReserve: 1 << 30, CloseTimeout: time.Second})
	if err != nil {
		if !typedDamage(err) {
			return untyped, "open: " + err.Error(), false
		}
		return openError, err.Error(), true
	}
	if cut {
		if warm {
			if res, detail := askAll(d, qs, want, nil); res != right {
				return res, "before the cut: " + detail, false
			}
		}
		if err := os.Truncate(work, int64(len(data))); err != nil {
			return untyped, err.Error(), false
		}
	}
	res, detail = askAll(d, qs, want, nil)
	if err := d.Check(context.Background(), nil, nil); err != nil {
		checked = true
		if !typedDamage(err) {
			return untyped, "check: " + err.Error(), true
		}
	}
	if err := d.Close(); err != nil {
		return untyped, "close: " + err.Error(), checked
	}
	if cut || res == wrong || res == untyped {
		return res, detail, checked
	}
	if after, text := writeDamaged(kind, work, data, qs, want); after == wrong || after == untyped {
		return after + afterWrite, text, checked
	} else if res == right && after != right {
		return after, text, checked
	}
	return res, detail, checked
}

// askAll asks all questions but those whose answers have changed.
func askAll(d *DB, qs []question, want map[string]string, changed func(string) bool) (res outcome, detail string) {
	res = right
	err := d.View(func(s *Snapshot) error {
		for _, q := range qs {
			if changed != nil && changed(q.name) {
				continue
			}
			got, err := q.ask(s)
			switch {
			case err == nil && got == want[q.name]:
			case err == nil:
				res, detail = wrong, fmt.Sprintf("%s: %.80q, want %.80q", q.name, got, want[q.name])
				return nil
			case typedDamage(err):
				if res == right {
					res, detail = opError, q.name+": "+err.Error()
				}
			default:
				res, detail = untyped, q.name+": "+err.Error()
				return nil
			}
		}
		return nil
	})
	if err != nil {
		if !typedDamage(err) {
			return untyped, "snapshot: " + err.Error()
		}
		return opError, "snapshot: " + err.Error()
	}
	return res, detail
}

// writeDamaged writes to the damaged file and asks again.
func writeDamaged(kind damaged, work string, data []byte, qs []question, want map[string]string) (res outcome, detail string) {
	if err := os.WriteFile(work, data, 0o600); err != nil {
		return untyped, err.Error()
	}
	o := &Options{NoSync: true, MapReserve: 1 << 30, CloseTimeout: time.Second}
	d, err := Open(context.Background(), work, o)
	if err != nil {
		if !typedDamage(err) {
			return untyped, "open: " + err.Error()
		}
		return openError, err.Error()
	}
	defer func() {
		if err := d.Close(); err != nil && res != wrong {
			res, detail = untyped, "close: "+err.Error()
		}
	}()
	// One row more, one changed, one deleted: questions about them, and those
	// that concern all rows of the collection, have other answers now.
	one := func(err error) error {
		if err != nil && !typedDamage(err) {
			res, detail = untyped, "write: "+err.Error()
		}
		return err
	}
	coll, row := kind.coll, kind.row
	write := func(key []byte, del bool) error {
		return d.Update(context.Background(), func(b *Tx) error {
			if del {
				return b.Collection(coll).Delete(key)
			}
			row.Key = key
			return b.Collection(coll).Put(row)
		})
	}
	res = right
	if one(write(damageKey(900), false)) != nil || one(write(damageKey(20), false)) != nil || one(write(damageKey(21), true)) != nil {
		if res == right {
			res, detail = opError, "write"
		}
		return res, detail
	}
	changed := func(name string) bool {
		return name == "collections" || name == "get "+coll+" 20" || name == "get "+coll+" 21" ||
			strings.Contains(name, " "+coll) && !strings.HasPrefix(name, "get")
	}
	value := func(r Row) string { return fmt.Sprint(r.Vector, r.Sparse) }
	qs = slices.Concat(qs, []question{
		{"new key", func(s *Snapshot) (string, error) {
			r, err := s.Collection(coll).Get(damageKey(900))
			if errors.Is(err, fail.NoRow) {
				return "not found", nil
			}
			return value(r), err
		}},
		{"changed key", func(s *Snapshot) (string, error) {
			r, err := s.Collection(coll).Get(damageKey(20))
			if errors.Is(err, fail.NoRow) {
				return "not found", nil
			}
			return value(r), err
		}},
		{"deleted key", func(s *Snapshot) (string, error) {
			_, err := s.Collection(coll).Get(damageKey(21))
			if errors.Is(err, fail.NoRow) {
				return "not found", nil
			}
			return "found", err
		}},
	})
	want = maps.Clone(want)
	want["new key"], want["changed key"], want["deleted key"] = value(row), value(row), "not found"
	return askAll(d, qs, want, changed)
}

// flip is one bit of the file and what it belongs to.
type flip struct {
	region string
	at     int64
	bit    int
	block  bool // of the value of a block, which Check must find
}

// flipsOf lists bits of every page of the file: of headers, element tables,
// keys and values, some more of what is small.
func flipsOf(t *testing.T, data []byte) []flip {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var out []flip
	add := func(region string, block bool, lo, hi int64, n int) {
		for range n {
			if lo < hi {
				out = append(out, flip{region, lo + rng.Int64N(hi-lo), rng.IntN(8), block})
			}
		}
	}
	// The walker tells which pages are in use, and where the pairs of which
	// bucket lie.
	where := map[int64]string{}
	w, m := soundWalker(t, data, func(bucket, _, _ []byte, at int64) { where[at] = string(bucket) })
	w.Buckets(func(b page.Bucket) {
		where[b.At] = "root"
		w.Walk(b, page.Values)
	})
	w.Freelist()
	for i := range int64(2) {
		add("meta page", false, i*layout.PageSize, i*layout.PageSize+16, 8)
		add("meta page", false, i*layout.PageSize+16, i*layout.PageSize+80, 40)
	}
	le := binary.LittleEndian
	for p := uint64(2); p < m.High; {
		at := m.Offset(p)
		if !w.Used(p) {
			add("free page", false, at, at+int64(m.PageSize), 2)
			p++
			continue
		}
		head := data[at:]
		flags, n := le.Uint16(head[8:]), int(le.Uint16(head[10:]))
		kind := map[uint16]string{page.Branch: "branch", page.Leaf: "leaf", page.Freelist: "freelist"}[flags]
		for i := range int64(16) {
			out = append(out, flip{kind + " header", at + i, rng.IntN(8), false}, flip{kind + " header", at + i, rng.IntN(8), false})
		}
		// Low bits of the number of elements are the ones that mislead most.
		for bit := range 6 {
			out = append(out, flip{kind + " header", at + 10, bit, false})
		}
		switch flags {
		case page.Freelist:
			add("freelist entries", false, at+16, at+16+8*int64(n), 40)
		case page.Branch, page.Leaf:
			picks := rng.Perm(n)
			for _, i := range picks[:min(n, 12)] {
				e := at + 16 + 16*int64(i)
				add(kind+" element", false, e, e+16, 8)
				if flags == page.Branch {
					from := e + int64(le.Uint32(data[e:]))
					add("branch key", false, from, from+int64(le.Uint32(data[e+4:])), 6)
					continue
				}
				from := e + int64(le.Uint32(data[e+4:]))
				v := from + int64(le.Uint32(data[e+8:]))
				end := v + int64(le.Uint32(data[e+12:]))
				b := where[v]
				add("key in "+b, false, from, v, 6)
				switch b {
				case "blocks", "tail", "sets", "meta":
					add("block header in "+b, true, v, v+64, 8)
					add("block payload in "+b, true, v+64, end, 8)
					add("block end in "+b, true, end-16, end, 1)
				default:
					add("value in "+b, false, v, end, 8)
				}
			}
		}
		p += 1 + uint64(le.Uint32(head[12:]))
	}
	return out
}

// command is one piece of damage for a child to try.
type command struct {
	text   string // "flip offset bit", "trunc length 0" or "cut length warm"
	region string
	block  bool
}

type result struct {
	outcome outcome
	detail  string
	checked bool
}

// tryAll has children try all commands, and starts another child where one
// dies or hangs.
func tryAll(t *testing.T, path string, commands []command) []result {
	t.Helper()
	const workers = 2
	results := make([]result, len(commands))
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for next := w; next < len(commands); {
				next = tryChild(t, path, commands, results, next, workers)
			}
		})
	}
	wg.Wait()
	return results
}

// tryChild tries the commands next, next+step, ... in one child, and returns
// the number of the first that was not tried.
func tryChild(t *testing.T, path string, commands []command, results []result, next, step int) int {
	c := child(t, "flips", path)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Error(err)
		return len(commands)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	stop := func() {
		_ = in.Close()
		_ = c.Process.Kill()
		for range lines {
		}
		_ = c.Wait()
	}
	for ; next < len(commands); next += step {
		if _, err := fmt.Fprintf(in, "%d %s\n", next, commands[next].text); err != nil {
			t.Errorf("child: %v: %s", err, stderr.String())
			stop()
			return len(commands)
		}
		// Long, for a machine may be busy; the torture bench counts a process's
		// own seconds.
		timeout := time.After(60 * time.Second)
		for done := false; !done; {
			select {
			case l, ok := <-lines:
				f := strings.Split(l, "\t")
				switch {
				case !ok:
					stop()
					first := stderr.String()
					results[next] = result{outcome: died, detail: first[:min(len(first), 1500)]}
					return next + step
				case len(f) == 4:
					results[next] = result{outcome(f[1]), f[3], f[2] == "true"}
					done = true
				case !strings.HasPrefix(l, "start"):
					t.Errorf("child: %s", l)
				}
			case <-timeout:
				stop()
				results[next] = result{outcome: hung}
				return next + step
			}
		}
	}
	_ = in.Close()
	for range lines {
	}
	if err := c.Wait(); err != nil {
		t.Errorf("child: %v: %s", err, stderr.String())
	}
	return next
}

// judge prints how often what happened and fails for what must not happen.
func judge(t *testing.T, commands []command, results []result) {
	t.Helper()
	counts := map[string]map[outcome]int{}
	total := map[outcome]int{}
	bad := 0
	for i, r := range results {
		if commands[i].block && !r.checked {
			r.outcome = checkMiss
		}
		if counts[commands[i].region] == nil {
			counts[commands[i].region] = map[outcome]int{}
		}
		counts[commands[i].region][r.outcome]++
		total[r.outcome]++
		if r.outcome != right && r.outcome != openError && r.outcome != opError {
			if bad++; bad <= 40 {
				t.Errorf("%s (%s): %s: %s", commands[i].text, commands[i].region, r.outcome, r.detail)
			}
		}
	}
	for _, region := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%-28s %v", region, counts[region])
	}
	t.Logf("%d tried: %v", len(results), total)
}

// TestDamage flips bits all over the files.
func TestDamage(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(damages)) {
		t.Run(name, func(t *testing.T) { flipBits(t, damages[name]) })
	}
}

func flipBits(t *testing.T, kind damaged) {
	path := filepath.Join(t.TempDir(), "damage.anndb")
	must(t, kind.write(path))
	data, err := os.ReadFile(path)
	must(t, err)
	flips := flipsOf(t, data)
	n := kind.flips
	if testing.Short() {
		n = kind.short
	}
	if s := os.Getenv(envFlips); s == "all" {
		n = len(flips)
	} else if s != "" {
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("%s: %v", envFlips, err)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	rng.Shuffle(len(flips), func(i, j int) { flips[i], flips[j] = flips[j], flips[i] })
	var commands []command
	for _, f := range flips[:min(n, len(flips))] {
		commands = append(commands, command{fmt.Sprintf("flip %d %d", f.at, f.bit), f.region, f.block})
	}
	start := time.Now()
	results := tryAll(t, path, commands)
	judge(t, commands, results)
	t.Logf("%d bytes, %d of %d candidate bits, %v", len(data), len(commands), len(flips), time.Since(start).Round(time.Millisecond))
}

// TestDamageRoot flips every bit of the names of the buckets and of the numbers
// of their first pages: the dictionary of features, which a file may do without,
// must be missed too, and a number may lead to a page of a former state.
func TestDamageRoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "damage.anndb")
	must(t, damages["terms"].write(path))
	data, err := os.ReadFile(path)
	must(t, err)
	var commands []command
	w, _ := soundWalker(t, data, nil)
	w.Buckets(func(b page.Bucket) {
		if testing.Short() && string(b.Name) != string(layout.BucketFeatures) {
			return
		}
		for i := range len(b.Name) + 8 {
			for bit := range 8 {
				text := fmt.Sprintf("flip %d %d", b.At-int64(len(b.Name)-i), bit)
				commands = append(commands, command{text, string(b.Name), false})
			}
		}
	})
	if len(commands) < 8*len(layout.BucketFeatures) {
		t.Fatalf("%d bits", len(commands))
	}
	judge(t, commands, tryAll(t, path, commands))
}

// TestTruncated cuts the file short, before it is opened and while it is open.
func TestTruncated(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(damages)) {
		t.Run(name, func(t *testing.T) { cutShort(t, damages[name]) })
	}
}

func cutShort(t *testing.T, kind damaged) {
	path := filepath.Join(t.TempDir(), "damage.anndb")
	must(t, kind.write(path))
	info, err := os.Stat(path)
	must(t, err)
	step := int64(4 * 400 / kind.flips)
	switch {
	case os.Getenv(envFlips) == "all":
		step = 1
	case testing.Short():
		step = 16
	}
	var commands []command
	for p := int64(0); p < info.Size()/layout.PageSize; p += step {
		for _, n := range []int64{p * layout.PageSize, p*layout.PageSize + 1, p*layout.PageSize + layout.PageSize/2} {
			commands = append(commands, command{text: fmt.Sprintf("trunc %d 0", n), region: "before open"})
			if n%layout.PageSize == 0 {
				commands = append(commands, command{text: fmt.Sprintf("cut %d 0", n), region: "while open"}, command{text: fmt.Sprintf("cut %d 1", n), region: "while in use"})
			}
		}
	}
	judge(t, commands, tryAll(t, path, commands))

	// The last byte that is needed is needed.
	data, err := os.ReadFile(path)
	must(t, err)
	need := latestOf(t, data).Bytes()
	for _, n := range []int64{need, need - 1} {
		must(t, os.WriteFile(path, data[:n], 0o600))
		d, err := Open(t.Context(), path, &Options{ReadOnly: true})
		if n == need {
			if err == nil {
				err = errors.Join(mustCheck(d), d.Close())
			}
			if err != nil {
				t.Errorf("%d bytes are all that is needed: %v", n, err)
			}
		} else if !errors.Is(err, fail.Truncated) {
			t.Errorf("%d bytes of %d: %v, %v, want errTruncated", n, need, d, err)
		}
	}
}
