package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/query"
)

// Labels that a file of queries declares and no row has change no measure, so that
// evaluate and tune average over the same labels.
func TestEvaluateLeavesOutDeclaredLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := dir + "/x.anndb"
	write := func(name string, declared int, rows ...string) string {
		text := fmt.Sprintf("%d 4 %d\n%s\n", len(rows), declared, strings.Join(rows, "\n"))
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir + "/" + name
	}
	must(t, "import", file, "docs", write("docs.txt", 3, "0 0:1 1:1", "1 2:1 3:1", "0,1 0:1 3:1"), "--no-sync")
	must(t, "build", file, "docs", "labels", "--kind", "lcif", "--k", "2", "--lambda", "0.5", "--threshold", "0.5")
	evaluate := func(declared int) (rows, string) {
		args := []string{"evaluate", file, "docs", "--queries"}
		args = append(args, write(fmt.Sprintf("tests%d.txt", declared), declared, "0 0:1 1:2", "1,2 2:1 3:3"))
		measures := mustJSON[rows](t, args...)
		return measures[:len(measures)-1], must(t, args...) // the last is a time
	}
	all, text := evaluate(3)
	if !strings.Contains(text, "labels: 3, 1 of them unknown") || strings.Contains(text, "left out") {
		t.Errorf("every label declared has a row:\n%s", text)
	}
	more, text := evaluate(9)
	if !strings.Contains(text, "labels: 3, 1 of them unknown") || !strings.Contains(text, "6 that the file declares and no row has are left out") {
		t.Errorf("six labels have no row:\n%s", text)
	}
	if !reflect.DeepEqual(all, more) {
		t.Errorf("measures with labels that no row has:\n%v\nwithout them:\n%v", more, all)
	}
}

// A setting that tune found can be given to build, its way to make thresholds included.
func TestCutFlags(t *testing.T) {
	t.Parallel()
	f := newDocs(t)
	tune := []string{"tune", f.file, "docs", "--folds", "3", "--tune-rows", "60", "--search"}
	for _, n := range []int{3, shownSettings} {
		args := append(tune, "coordinates", "--weight", "none", "--settings", fmt.Sprint(n))
		settings := mustJSON[map[string]rows](t, args...)["settings"]
		if len(settings) != n {
			t.Errorf("%d settings, want %d", len(settings), n)
		}
		if cut, ok := settings[0]["threshold"].(map[string]any); !ok || cut["share"] == nil {
			t.Errorf("threshold %v has no fields", settings[0]["threshold"])
		}
	}
	paper := mustJSON[map[string]rows](t, append(tune, "paper")...)["settings"][0]
	if cut, ok := paper["threshold"].(map[string]any); !ok || cut["steps"] != true {
		t.Errorf("setting of the paper's search: %v", paper)
	}
	if s := must(t, append(tune, "grid", "--weight", "none", "--allow-empty")...); !strings.Contains(s, "the whole grid") {
		t.Errorf("tune --search grid:\n%s", s)
	}
	build := []string{"build", f.file, "docs", "given", "--kind", "lcif", "--k", "8", "--lambda", "0.5"}
	for _, c := range []struct{ flags, want string }{
		{"--cut-share 1.5 --folds 4", "threshold for 1.5 × the mean number of labels, always the best"},
		{"--cut-share 1.5 --allow-empty", "threshold for 1.5 × the mean number of labels"},
		{"--cut-per-label", "a threshold for each label, always the best"},
	} {
		s := must(t, append(build, strings.Fields(c.flags)...)...)
		if !strings.Contains(s, c.want) || strings.Contains(c.flags, "empty") && strings.Contains(s, "always the best") {
			t.Errorf("build %s:\n%s\nwant %q", c.flags, s, c.want)
		}
	}
}

func TestCutFlagErrors(t *testing.T) {
	t.Parallel()
	f := newDocs(t)
	for _, c := range []struct{ args, want string }{
		{"build --kind sbt --budget 5 --allow-empty", "--allow-empty"},
		{"build --kind pt --budget 5 --allow-empty", "--allow-empty"},
		{"tune --kind sbt --allow-empty", "--allow-empty"},
		{"tune --kind at --search grid", "--search"},
		{"build --kind postings --allow-empty", "--allow-empty, --search"},
		{"build --kind postings --search grid", "--kind lcif"},
		{"build --kind postings --cut-share 1", "--cut-share, --cut-per-label"},
		{"build --kind at --cut-per-label", "--kind at takes"},
		{"build --kind lcif --cut-per-label", "--lambda is missing"},
		{"build --kind lcif --k 3", "--k unless --lambda is 0"},
		{"build --kind lcif --k 3 --lambda 1 --cut-share=-1", "--cut-share -1"},
		{"build --kind lcif --k 3 --lambda 1 --cut-share 1 --threshold 0.1", "--threshold"},
		{"build --kind lcif --k 3 --lambda 1 --cut-share 1 --cut-per-label", "exclude"},
		{"build --kind lcif --k 3 --lambda 1 --allow-empty", "--cut-share"},
		{"build --kind lcif --k 3 --lambda 1 --search paper", "for tuning"},
		{"tune --objective p1", "one of \"micro-f1\""},
	} {
		args := strings.Fields(c.args)
		args = append([]string{args[0], f.file, "docs", "x"}, args[1:]...)
		if _, errs, code := anndb(t, args...); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q: %s", c.args, code, exitUsage, c.want, errs)
		}
	}
}

func TestSparseSettingNamesAll(t *testing.T) {
	info := db.IndexInfo{Options: db.BuildOptions{Kind: db.KindLCIF, LCIF: db.LCIFOptions{
		Weight: db.WeightStandard, Neighbors: "main", Params: &query.LCIFParams{K: 3, Lambda: 1},
	}}}
	const want = "standard, neighbours by main, λ=1 k=3 α=1, the best label"
	if got := sparseSetting(info); got != want {
		t.Errorf("setting %q, want %q", got, want)
	}
}
