package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/anndb/anndb/dataset"
)

// anndb runs a command line and returns what it wrote and its exit code.
func anndb(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(context.Background(), args, &o, &e)
	return o.String(), e.String(), code
}

// must runs a command line that has to succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := anndb(t, args...)
	if code != exitOK || errs != "" {
		t.Fatalf("anndb %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// mustJSON runs a command with --json and decodes its one value.
func mustJSON[T any](t *testing.T, args ...string) T {
	t.Helper()
	out := must(t, append(args, "--json")...)
	var v T
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("anndb %s: %v in\n%s", strings.Join(args, " "), err, out)
	}
	return v
}

type rows = []map[string]any

const (
	testRows    = 600
	testDim     = 8
	testQueries = 40
)

// writeRows writes labelled, clustered vectors of a seed as jsonl.
func writeRows(t *testing.T, path string, n int, seed uint64) string {
	t.Helper()
	w, err := dataset.Create(path, dataset.Schema{Dim: testDim})
	if err != nil {
		t.Fatal(err)
	}
	centres := rand.New(rand.NewPCG(1, 1)) // the same for rows and queries
	var centre [6][testDim]float64
	for c := range centre {
		for j := range testDim {
			centre[c][j] = 5 * centres.NormFloat64()
		}
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range n {
		c := rng.IntN(len(centre))
		v := make([]float32, testDim)
		for j := range v {
			v[j] = float32(centre[c][j] + rng.NormFloat64())
		}
		err := w.Write(&dataset.Record{
			Key: fmt.Appendf(nil, "row-%03d", i), Vector: v, Labels: []string{fmt.Sprintf("c%d", c)},
			Payload: fmt.Appendf(nil, "payload of %d", i),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// fixture is a folder with rows, queries and a database that holds the rows
// and an index with everything in it.
type fixture struct{ dir, rows, queries, file string }

func (f fixture) path(name string) string { return filepath.Join(f.dir, name) }

func newFixture(t *testing.T) fixture {
	t.Helper()
	dir := t.TempDir()
	f := fixture{dir: dir, rows: filepath.Join(dir, "rows.jsonl"), queries: filepath.Join(dir, "queries.jsonl"), file: filepath.Join(dir, "test.anndb")}
	writeRows(t, f.rows, testRows, 10)
	writeRows(t, f.queries, testQueries, 20)
	must(t, "import", f.file, "things", f.rows, "--no-sync")
	return f
}

// newIndexed copies a fixture with an index, which is built once.
func newIndexed(t *testing.T) fixture {
	t.Helper()
	indexed.once.Do(func() {
		f := newFixture(t)
		must(t, "build", f.file, "things", "main", "--members", "--trees", "6", "--depth", "4", "--labels-k", "20", "--tune-k", "5")
		for _, p := range []string{f.rows, f.queries, f.file} {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			indexed.files = append(indexed.files, b)
		}
	})
	if len(indexed.files) != 3 {
		t.Fatal("the fixture could not be built")
	}
	dir := t.TempDir()
	f := fixture{dir: dir, rows: filepath.Join(dir, "rows.jsonl"), queries: filepath.Join(dir, "queries.jsonl"), file: filepath.Join(dir, "test.anndb")}
	for i, p := range []string{f.rows, f.queries, f.file} {
		if err := os.WriteFile(p, indexed.files[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

var indexed struct {
	once  sync.Once
	files [][]byte
}

func TestImport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	more := f.path("more.csv.gz")
	writeRows(t, more, 30, 11)
	got := mustJSON[rows](t, "import", f.file, "things", more, "--key-prefix", "more-", "--limit", "25", "--batch", "7")
	if got[0]["rows"] != 25.0 || got[0]["created"] != false || got[0]["dim"] != float64(testDim) {
		t.Errorf("%v", got)
	}
	stats := mustJSON[map[string]rows](t, "stats", f.file)
	if n := stats["collections"][0]["rows"]; n != testRows+25.0 {
		t.Errorf("%v rows after importing %d and 25", n, testRows)
	}
	// A second import of the same keys replaces rows, on request.
	must(t, "import", f.file, "things", more, "--key-prefix", "more-", "--limit", "25", "--replace")
	stats = mustJSON[map[string]rows](t, "stats", f.file)
	if n := stats["collections"][0]["rows"]; n != testRows+25.0 {
		t.Errorf("%v rows after importing the same again", n)
	}
}

func TestImportIDXWithLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	images, labels := filepath.Join(dir, "images"), filepath.Join(dir, "labels")
	header := func(kind byte, sizes ...uint32) []byte {
		b := []byte{0, 0, 8, byte(len(sizes))}
		for _, s := range sizes {
			b = binary.BigEndian.AppendUint32(b, s)
		}
		_ = kind
		return b
	}
	if err := os.WriteFile(images, append(header(8, 3, 2, 2), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(labels, append(header(8, 3), 7, 7, 9), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "x.anndb")
	must(t, "import", file, "img", images, "--labels", labels)
	got := mustJSON[rows](t, "search", file, "img", "--vector", "1,2,3,4", "-k", "2")
	if len(got) != 2 || got[0]["key"] != "0" || got[0]["distance"] != 0.0 || got[0]["labels"] != "7" || got[1]["distance"] != 8.0 {
		t.Errorf("%v", got)
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	back := f.path("back.jsonl.gz")
	got := mustJSON[rows](t, "export", f.file, "things", back)
	if got[0]["rows"] != float64(testRows) {
		t.Errorf("%v", got)
	}
	// What was exported and imported again is the same, down to labels and
	// payloads.
	must(t, "import", f.path("again.anndb"), "things", back)
	search := []string{"things", "--query", f.queries, "--payload", "-k", "3"}
	first := must(t, append([]string{"search", f.file, "--format", "csv"}, search...)...)
	second := must(t, append([]string{"search", f.path("again.anndb"), "--format", "csv"}, search...)...)
	if first != second || !strings.Contains(first, "payload of") {
		t.Errorf("searches differ:\n%s\n%s", first, second)
	}
	vectors := mustJSON[rows](t, "export", f.file, "things", f.path("v.fvecs"))
	if vectors[0]["written"] != "vectors only" {
		t.Errorf("%v", vectors)
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := mustJSON[map[string]rows](t, "build", f.file, "things", "a", "--trees", "5", "--labels-k", "20", "--tune-k", "5")
	if got["index"][0]["index"] != "a" || got["index"][0]["trees"] != 5.0 || got["index"][0]["rows"] != float64(testRows) {
		t.Errorf("index %v", got["index"])
	}
	if len(got["stages"]) == 0 || len(got["bytes"]) == 0 || len(got["curve"]) == 0 {
		t.Errorf("stages %v, bytes %v, curve %v", got["stages"], got["bytes"], got["curve"])
	}
	for _, p := range got["curve"] {
		if r := p["recall"].(float64); r < 0 || r > 1 {
			t.Errorf("curve point %v", p)
		}
	}
	train := f.path("train.csv")
	writeRows(t, train, 100, 30)
	for _, flags := range [][]string{
		{"--kind", "rp", "--no-tune", "--density", "0.5"},
		{"--kind", "pca", "--no-tune", "--sketch=-1", "--hops=-1"},
		{"--kind", "rf", "--no-tune", "--rotate", "4", "--candidates", "3", "--subsample", "40"},
		{"--kind", "kd-chrono", "--no-tune", "--members", "--no-natural", "--depth", "4"},
		{"--kind", "kd", "--no-tune", "--rotate=-1", "--quantize", "--min-votes", "2", "--seed", "9"},
		{"--kind", "kd", "--train", train, "--limit", "90", "--no-tune"},
	} {
		args := append([]string{"build", f.file, "things", "b", "--trees", "3", "--labels-k", "10"}, flags...)
		got := mustJSON[map[string]rows](t, args...)
		if kind := flags[1]; got["index"][0]["kind"] != kind {
			t.Errorf("%v: kind %v", flags, got["index"][0]["kind"])
		}
		if len(got["curve"]) != 0 {
			t.Errorf("%v: has a curve", flags)
		}
	}
	text := must(t, "build", f.file, "things", "c", "--trees", "3", "--labels-k", "10", "--tune-k", "5")
	for _, want := range []string{"Where the time went", "Where the bytes are", "Settings by recall", "natural"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	must(t, "drop", f.file, "things", "b")
	list := mustJSON[map[string]rows](t, "stats", f.file)["indexes"]
	if len(list) != 2 || list[0]["index"] != "a" || list[1]["index"] != "c" {
		t.Errorf("indexes after drop: %v", list)
	}
}

func TestBuildAuto(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := mustJSON[map[string]rows](t, "build", f.file, "things", "--kind", "auto", "--target-recall", "0.9", "--trees", "4", "--labels-k", "15", "--tune-k", "5")
	if kind := got["index"][0]["kind"]; kind == "auto" || kind == "" {
		t.Errorf("auto chose %v", kind)
	}
	if len(got["curve"]) == 0 {
		t.Error("no curve")
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	f := newIndexed(t)
	exact := mustJSON[rows](t, "search", f.file, "things", "--query", f.queries, "-k", "5", "--index", "flat")
	if len(exact) != 5*testQueries {
		t.Fatalf("%d hits, want 5 for each of %d queries", len(exact), testQueries)
	}
	for i, h := range exact {
		if h["rank"] != float64(i%5+1) || i%5 > 0 && h["distance"].(float64) < exact[i-1]["distance"].(float64) {
			t.Fatalf("hit %d out of order: %v", i, h)
		}
	}
	for _, flags := range [][]string{
		{"--recall", "0.9"},
		{"--index", "main"},
		{"--method", "natural-zero"},
		{"--method", "natural", "--tau", "0.001", "--trees", "6", "--extra", "3", "--hops", "2", "--hop-from", "5", "--hop-width", "8"},
		{"--method", "voting", "--votes", "2"},
		{"--method", "lookup", "--sketch", "40"},
		{"--method", "flat"},
	} {
		got := mustJSON[rows](t, append([]string{"search", f.file, "things", "--query", f.queries, "-k", "5"}, flags...)...)
		same := 0
		want := map[string]bool{}
		for _, h := range exact {
			want[fmt.Sprint(h["query"], h["key"])] = true
		}
		for _, h := range got {
			if want[fmt.Sprint(h["query"], h["key"])] {
				same++
			}
		}
		if len(got) != len(exact) || same < len(exact)*7/10 {
			t.Errorf("%v: %d hits, %d of them right, of %d", flags, len(got), same, len(exact))
		}
	}
}

// TestSearchFewRows: the default -k 10 finds all rows of a small collection, with
// and without an index.
func TestSearchFewRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "few.anndb")
	must(t, "import", file, "few", writeRows(t, filepath.Join(dir, "rows.jsonl"), 4, 1), "--no-sync")
	for _, built := range []bool{false, true} {
		if built {
			must(t, "build", file, "few")
		}
		if got := mustJSON[rows](t, "search", file, "few", "--vector", "1,2,3,4,5,6,7,8"); len(got) != 4 {
			t.Errorf("with an index %v: %d hits, want all 4 rows", built, len(got))
		}
	}
	must(t, "evaluate", file, "few", "--queries", filepath.Join(dir, "rows.jsonl"))
}

func TestSearchByKeyAndFilters(t *testing.T) {
	t.Parallel()
	f := newIndexed(t)
	got := mustJSON[rows](t, "search", f.file, "things", "--key", "row-042", "-k", "4", "--payload")
	if len(got) != 4 || got[0]["key"] != "row-042" || got[0]["distance"] != 0.0 || got[0]["payload"] != "payload of 42" {
		t.Errorf("by key: %v", got)
	}
	label := got[0]["labels"].(string)
	for _, h := range mustJSON[rows](t, "search", f.file, "things", "--key", "row-042", "-k", "20", "--label", label) {
		if h["labels"] != label {
			t.Errorf("--label %s gave %v", label, h)
		}
	}
	for _, h := range mustJSON[rows](t, "search", f.file, "things", "--key", "row-042", "-k", "20", "--key-prefix", "row-1") {
		if !strings.HasPrefix(h["key"].(string), "row-1") {
			t.Errorf("--key-prefix gave %v", h)
		}
	}
	near := mustJSON[rows](t, "search", f.file, "things", "--key", "row-042", "-k", "500", "--radius", "3", "--index", "flat")
	if len(near) < 2 || len(near) > testRows/2 {
		t.Errorf("--radius 3 gave %d hits", len(near))
	}
	for _, h := range near {
		if h["distance"].(float64) > 3 {
			t.Errorf("--radius 3 gave %v", h)
		}
	}
}

func TestSearchExplains(t *testing.T) {
	t.Parallel()
	f := newIndexed(t)
	got := mustJSON[rows](t, "search", f.file, "things", "--key", "row-042", "-k", "2", "--method", "natural-zero", "--explain")
	e, ok := got[0]["explanation"].(map[string]any)
	if !ok || e["method"] != "natural-zero" || e["source"] != "forest" || e["votes"] == nil {
		t.Errorf("%v", got[0])
	}
	text := must(t, "search", f.file, "things", "--key", "row-042", "--explain", "--method", "natural-zero")
	for _, want := range []string{"forest: votes", "of 6 leaves", "above 0", "6.0 leaves", "candidates"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	f := newIndexed(t)
	got := mustJSON[rows](t, "evaluate", f.file, "things", "--queries", f.queries, "-k", "5", "--rounds", "2", "--threads", "2")
	if len(got) != 4 || got[0]["index"] != "flat" || got[0]["recall"] != 1.0 {
		t.Fatalf("%v", got)
	}
	for _, r := range got {
		if r["micros"].(float64) <= 0 || r["p50"].(float64) > r["p95"].(float64) || r["p95"].(float64) > r["p99"].(float64) || r["per_second"].(float64) <= 0 {
			t.Errorf("times of %v", r)
		}
		if target, ok := r["target"].(float64); ok && r["recall"].(float64) < target-0.2 {
			t.Errorf("far below the target: %v", r)
		}
	}
	got = mustJSON[rows](t, "evaluate", f.file, "things", "--holdout", "30", "--method", "natural-zero,voting,lookup", "--no-flat", "--index", "main", "--limit", "0")
	if len(got) != 3 {
		t.Fatalf("%v", got)
	}
	for _, r := range got {
		if r["recall"].(float64) < 0.5 || r["candidates"].(float64) < 1 {
			t.Errorf("%v", r)
		}
	}
}

func TestCheckBackupCompact(t *testing.T) {
	t.Parallel()
	f := newIndexed(t)
	if got := mustJSON[rows](t, "check", f.file); got[0]["problems"] != 0.0 {
		t.Errorf("%v", got)
	}
	copied := f.path("copy.anndb")
	got := mustJSON[rows](t, "backup", f.file, copied)
	st, err := os.Stat(copied)
	if err != nil || got[0]["bytes"] != float64(st.Size()) {
		t.Fatalf("%v, file %v, %v", got, st, err)
	}
	must(t, "check", copied)
	must(t, "backup", f.file, copied, "--force")
	must(t, "drop", copied, "things", "main")
	must(t, "compact", copied, "--reorder")
	small := mustJSON[rows](t, "compact", copied)
	if small[0]["bytes_after"].(float64) > small[0]["bytes_before"].(float64) {
		t.Errorf("%v", small)
	}
	must(t, "check", copied)
	if left := mustJSON[map[string]rows](t, "stats", copied); left["collections"][0]["rows"] != float64(testRows) || len(left["indexes"]) != 0 {
		t.Errorf("%v", left)
	}
	must(t, "drop", copied, "things", "--yes")
	if left := mustJSON[map[string]rows](t, "stats", copied); len(left["collections"]) != 0 {
		t.Errorf("%v", left)
	}
}

// A flipped byte makes check fail, with the place; it never goes unnoticed.
func TestCheckFindsDamage(t *testing.T) {
	t.Parallel()
	f := newIndexed(t)
	b, err := os.ReadFile(f.file)
	if err != nil {
		t.Fatal(err)
	}
	// In the middle of the vector of a row, wherever the file keeps it.
	at := bytes.Index(b, []byte("row-300"))
	if at < 0 {
		t.Fatal("the key of row 300 is not in the file")
	}
	b[at] ^= 0x40
	if err := os.WriteFile(f.file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := anndb(t, "check", f.file)
	if code != exitError || !strings.Contains(errs, "damaged") && !strings.Contains(errs, "corrupt") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	f := newIndexed(t)
	got := mustJSON[map[string]rows](t, "stats", f.file, "things")
	if len(got["labels"]) == 0 || len(got["curve main"]) == 0 || got["collection"][0]["dim"] != float64(testDim) {
		t.Errorf("%v", got)
	}
	text := must(t, "stats", f.file)
	for _, want := range []string{"Collections", "Indexes", "things", "main", "MiB"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	must(t, "stats", f.file, "--format", "markdown")
	must(t, "stats", f.file, "--format", "csv")
}

func TestBenchAndPlot(t *testing.T) {
	t.Parallel()
	f := newIndexed(t)
	dir := f.path("out")
	args := []string{"bench", f.file, "things", "--queries", f.queries, "-k", "5", "--kinds", "kd,rp", "--depths", "3,5", "--trees", "5", "--labels-k", "15", "--rounds", "1", "--limit-queries", "30"}
	text := must(t, append(args, "--out", dir)...)
	for _, want := range []string{"30 queries", "natural-zero", "lookup", "The paper's findings", "The whole pipeline", "is fastest in", "bench.csv"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, name := range []string{"bench.csv", "kd.svg", "kd.png", "rp.svg", "forests.svg", "forests.png"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	got := mustJSON[map[string]rows](t, args...)
	// Two forests, four methods, four targets.
	if len(got["best"]) != 2*4*4 || len(got["verdicts"]) == 0 || len(got["pipeline"]) != 4 || len(got["built"]) != 6 {
		t.Errorf("%d best, %d verdicts, %d pipeline, %d built", len(got["best"]), len(got["verdicts"]), len(got["pipeline"]), len(got["built"]))
	}
	again := f.path("again")
	pictures := mustJSON[rows](t, "plot", filepath.Join(dir, "bench.csv"), "--out", again, "--type", "svg", "--title", "again")
	if len(pictures) != 3 {
		t.Errorf("%v", pictures)
	}
	one := f.path("one.png")
	must(t, "plot", filepath.Join(dir, "bench.csv"), "--out", one, "--forest", "kd", "--method", "natural,lookup", "--width", "400", "--height", "300")
	if b, err := os.ReadFile(one); err != nil || !bytes.HasPrefix(b, []byte("\x89PNG")) {
		t.Errorf("%v", err)
	}
}

// A small library is a Go tree like the real one: packages of exported
// functions, and files that use what they import.
func writeGoroot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	verbs := []string{"read", "write", "sort", "parse", "encode", "match", "split", "join"}
	nouns := []string{"file", "socket", "string", "number", "table", "image"}
	for _, noun := range nouns {
		dir := filepath.Join(root, "src", noun)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		fmt.Fprintf(&b, "package %s\n", noun)
		for _, verb := range verbs {
			for n, other := range nouns {
				name := strings.ToUpper(verb[:1]) + verb[1:] + fmt.Sprint(n)
				fmt.Fprintf(&b, "\n// %s does %s a %s into a %s.\nfunc %s() { %s(%s, %s) }\n", name, verb, noun, other, name, verb, noun, other)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range 2 * len(nouns) {
			other, third := nouns[i%len(nouns)], nouns[(i*i+1)%len(nouns)]
			text := fmt.Sprintf("package %s\n\nimport (\n\t%q\n\t%q\n)\n\nfunc use%d() { %s.Read%d(%s.Sort%d()) }\n", noun, other, third, i, other, i, third, i)
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("y%d.go", i)), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

func TestDemo(t *testing.T) {
	t.Parallel()
	root := writeGoroot(t)
	file := filepath.Join(t.TempDir(), "demo.anndb")
	text := must(t, "demo", "--goroot", root, "--near", "file.Read1", "--file", file)
	for _, want := range []string{"tf-idf", "build: labels", "file.Read1", "flat", "0.95", "Kept in " + file, "label model: tune", "majority", "because of"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	must(t, "check", file)
	got := mustJSON[map[string]rows](t, "demo", "--goroot", root, "--near", "file.Read1")
	if len(got["neighbours"]) != 5 || len(got["measured"]) != 4 || len(got["steps"]) < 5 || len(got["imports"]) != 4 {
		t.Errorf("%v", got)
	}
	by := got["imports measured"]
	if len(by) != 3 || by[1]["p@1"].(float64) <= by[0]["p@1"].(float64) || by[2]["p@1"] != 1.0 {
		t.Errorf("%v", by)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	f := newIndexed(t)
	bench := []string{"bench", f.file, "things", "--queries", f.queries}
	search := []string{"search", f.file, "things", "--vector", "1,2,3,4,5,6,7,8"}
	evaluate := []string{"evaluate", f.file, "things", "--queries", f.queries}
	build := []string{"build", f.file, "things"}
	csv := f.path("bench.csv")
	if err := os.WriteFile(csv, []byte("forest,method,depth,trees,tau,votes,recall,micros,candidates,front\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string // in the message
	}{
		{[]string{"fly"}, "fly"},
		{[]string{"search"}, "--query"},
		{[]string{"stats"}, "<file>"},
		{[]string{"search", f.file, "things"}, "--query"},
		{[]string{"search", f.file, "things", "--query", "a", "--key", "b"}, "--key"},
		{[]string{"stats", f.file, "--format", "xml"}, "--format"},
		{[]string{"stats", f.file, "--json", "--format", "csv"}, "--format"},
		{[]string{"stats", f.file, "--workers", "-1"}, "--workers"},
		{append(search, "-k", "0"), "-k"},
		{append(search, "--recall", "1.5"), "--recall"},
		{append(search, "--recall", "0.9", "--method", "natural"), "--method"},
		{append(search, "--method", "magic"), "magic"},
		{append(search, "--method", "natural", "--tau", "2"), "--tau"},
		{append(search, "--method", "natural", "--hops", "-1"), "--hops"},
		{append(search, "--tau", "0.1"), "--method"},
		{append(search, "--radius", "-1"), "--radius"},
		{append(search, "--query", f.queries), "--query"},
		{[]string{"search", f.file, "things", "--query", f.queries, "--limit=-1"}, "--limit"},
		{[]string{"search", f.file, "things", "--query", f.queries, "--as", "docx"}, "docx"},
		{[]string{"search", f.file, "things", "--vector", "1,2"}, "--vector"},
		{[]string{"search", f.file, "things", "--vector", "1,two"}, "two"},
		{append(evaluate, "--threads", "0"), "--threads"},
		{append(evaluate, "--rounds", "0"), "--rounds"},
		{append(evaluate, "--recall", "0"), "--recall"},
		{append(evaluate, "-k", "0"), "-k"},
		{append(evaluate, "--method", "magic"), "magic"},
		{append(evaluate, "--trees", "3"), "--method"},
		{append(evaluate, "--holdout", "3"), "--holdout"},
		{[]string{"evaluate", f.file, "things", "--holdout", "-3"}, "--holdout"},
		{append(build, "--trees", "-2"), "--trees"},
		{append(build, "--kind", "oak"), "--kind"},
		{append(build, "--density", "2"), "--density"},
		{append(build, "--target-recall", "0.9"), "--kind auto"},
		{append(build, "--kind", "auto", "--target-recall", "9"), "--target-recall"},
		{append(build, "--sketch", "3"), "sketch"},
		{append(build, "--limit", "5"), "--train"},
		{[]string{"drop", f.file, "things"}, "--yes"},
		{append(bench, "--kinds", "oak"), "oak"},
		{append(bench, "--depths", "99"), "99"},
		{append(bench, "--rounds", "0"), "--rounds"},
		{append(bench, "--trees", "-1"), "--trees"},
		{append(bench, "--recall", "2"), "--recall"},
		{append(bench, "-k", "0"), "-k"},
		{[]string{"plot", csv, "--min-recall", "1"}, "--min-recall"},
		{[]string{"plot", csv, "--width", "1"}, "--width"},
		{[]string{"plot", csv, "--type", "gif"}, "gif"},
		{[]string{"plot", csv, "--out", f.path("x.gif")}, "x.gif"},
		{[]string{"import", f.file, "", f.rows}, "name"},
		{[]string{"import", f.file, "things", f.rows, "--batch=-1"}, "--batch"},
		{[]string{"import", f.file, "things", f.rows, "--metric", "taxi"}, "--metric"},
		{[]string{"backup", f.file, f.rows}, "--force"},
		{[]string{"export", f.file, "things", f.path("what.ever")}, "what.ever"},
		{[]string{"demo", "--file", f.rows}, "--file"},
	} {
		name := strings.ReplaceAll(strings.Join(c.args, " "), f.dir, "")
		out, errs, code := anndb(t, c.args...)
		if code != exitUsage || out != "" || !strings.Contains(errs, c.want) || !strings.Contains(errs, "Try: anndb ") {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", name, code, exitUsage, c.want, out, errs)
		}
	}
	// None of them changed anything.
	must(t, "check", f.file)
	if got := mustJSON[map[string]rows](t, "stats", f.file); got["collections"][0]["rows"] != float64(testRows) {
		t.Errorf("%v", got["collections"])
	}
}

func TestWorkErrors(t *testing.T) {
	t.Parallel()
	f := newIndexed(t)
	must(t, "build", f.file, "things", "untuned", "--trees", "3", "--labels-k", "10", "--no-tune")
	text := f.path("notes.txt")
	if err := os.WriteFile(text, bytes.Repeat([]byte("no database\n"), 9000), 0o600); err != nil {
		t.Fatal(err)
	}
	narrow := f.path("narrow.csv")
	if err := os.WriteFile(narrow, []byte("1,2\n3,4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := f.path("bad.csv")
	if err := os.WriteFile(bad, []byte("1,2,3,4,5,6,7,8\n1,2,3,4,5,6,7,x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"stats", f.path("missing.anndb")}, "missing.anndb"},
		{[]string{"stats", text}, "notes.txt"},
		{[]string{"stats", f.file, "nothing"}, "nothing"},
		{[]string{"search", f.file, "nothing", "--key", "x"}, "nothing"},
		{[]string{"search", f.file, "things", "--key", "nobody"}, "nobody"},
		{[]string{"search", f.file, "things", "--key", "row-001", "--index", "none"}, "none"},
		{[]string{"search", f.file, "things", "--query", narrow}, "narrow.csv"},
		{[]string{"search", f.file, "things", "--query", f.path("missing.npy")}, "missing.npy"},
		{[]string{"evaluate", f.file, "things", "--queries", f.queries, "--index", "none"}, "none"},
		{[]string{"evaluate", f.file, "nothing", "--holdout", "5"}, "nothing"},
		{[]string{"build", f.file, "nothing"}, "nothing"},
		{[]string{"build", f.file, "things", "--train", narrow}, "narrow.csv"},
		{[]string{"drop", f.file, "things", "none"}, "none"},
		{[]string{"drop", f.file, "nothing", "--yes"}, "nothing"},
		{[]string{"import", f.file, "things", narrow}, "dimension"},
		{[]string{"import", f.file, "new", bad}, "bad.csv"},
		{[]string{"import", text, "things", f.rows}, "notes.txt"},
		{[]string{"export", f.file, "nothing", f.path("x.csv")}, "nothing"},
		{[]string{"plot", text}, "notes.txt"},
		{[]string{"plot", f.path("missing.csv")}, "missing.csv"},
		{[]string{"demo", "--goroot", f.dir}, "Go source"},
		{[]string{"bench", f.file, "things", "--queries", narrow}, "narrow.csv"},
	} {
		name := strings.ReplaceAll(strings.Join(c.args, " "), f.dir, "")
		out, errs, code := anndb(t, c.args...)
		if code != exitError || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", name, code, exitError, c.want, out, errs)
		}
	}
	// An index without a curve cannot be asked for a recall.
	if _, errs, code := anndb(t, "search", f.file, "things", "--key", "row-001", "--index", "untuned"); code != exitUsage || !strings.Contains(errs, "untuned") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if _, errs, code := anndb(t, "evaluate", f.file, "things", "--queries", f.queries, "--index", "untuned"); code != exitUsage || !strings.Contains(errs, "--method") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	f := newIndexed(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{
		{"import", f.file, "things", f.rows, "--key-prefix", "again-"},
		{"export", f.file, "things", f.path("x.csv")},
		{"build", f.file, "things", "b"},
		{"search", f.file, "things", "--query", f.queries},
		{"evaluate", f.file, "things", "--queries", f.queries},
		{"check", f.file},
		{"backup", f.file, f.path("b.anndb")},
		{"compact", f.file},
		{"bench", f.file, "things", "--queries", f.queries},
		{"demo", "--goroot", writeGoroot(t)},
	} {
		var out, errs bytes.Buffer
		code := run(ctx, args, &out, &errs)
		if code != exitInterrupted || out.Len() > 0 || !strings.Contains(errs.String(), "interrupted") {
			t.Errorf("%s: exit code %d\n%s%s", args[0], code, out.String(), errs.String())
		}
	}
	for _, name := range []string{"x.csv", "b.anndb"} {
		if _, err := os.Stat(f.path(name)); err == nil {
			t.Errorf("%s was left behind", name)
		}
	}
	left, err := filepath.Glob(filepath.Join(f.dir, "*partial*"))
	if hidden, _ := filepath.Glob(filepath.Join(f.dir, ".*partial*")); err != nil || len(left)+len(hidden) > 0 {
		t.Errorf("left behind: %v %v", left, hidden)
	}
	must(t, "check", f.file)
	if got := mustJSON[map[string]rows](t, "stats", f.file); got["collections"][0]["rows"] != float64(testRows) {
		t.Errorf("%v", got["collections"])
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	out := must(t)
	commands := []string{"import", "export", "build", "tune", "drop", "search", "predict", "explain", "evaluate", "stats", "check", "bench", "plot", "backup", "compact", "demo"}
	for _, c := range commands {
		if !strings.Contains(out, "  "+c+" ") {
			t.Errorf("no %s in\n%s", c, out)
		}
		if help := must(t, c, "--help"); !strings.Contains(help, "Usage: anndb "+c) {
			t.Errorf("help of %s:\n%s", c, help)
		}
	}
}
