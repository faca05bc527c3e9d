package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
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
