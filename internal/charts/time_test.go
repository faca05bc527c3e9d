package charts

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/anndb/anndb/db"
)

// TestStagesExist checks that package query has the functions that stages name.
func TestStagesExist(t *testing.T) {
	files, err := filepath.Glob("../../query/*.go")
	must(t, err)
	methods := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		must(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[fn.Name.Name] = true
			}
		}
	}
	for _, stage := range stages {
		for _, f := range strings.Fields(stage.functions) {
			if !methods[f] {
				t.Errorf("%s: package query has no method %q", stage.name, f)
			}
		}
	}
}

// TestStageOf checks that a sample counts for the innermost function that a stage names.
func TestStageOf(t *testing.T) {
	sample := func(names ...string) *profile.Sample {
		s := &profile.Sample{Value: []int64{1}}
		for _, n := range names {
			line := profile.Line{Function: &profile.Function{Name: n}}
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{line}})
		}
		return s
	}
	const query = "github.com/anndb/anndb/query.(*Searcher)."
	for want, s := range map[int]*profile.Sample{
		0: sample("github.com/anndb/anndb/vector.dotTile", query+"project", query+"run"),
		2: sample("github.com/anndb/anndb/vector.packedScores", query+"estimate", query+"walk"),
		3: sample("runtime.memmove", query+"expand", query+"walk"),
		4: sample("github.com/anndb/anndb/query.(*scorer).distance", query+"keep"),
		5: sample("runtime.mallocgc", "github.com/anndb/anndb/db.search"),
	} {
		if got := stageOf(s); got != want {
			t.Errorf("%s: stage %d, want %d", s.Location[0].Line[0].Function.Name, got, want)
		}
	}
}

func TestTime(t *testing.T) {
	var rows []db.Row
	var queries []db.Query
	for i := range 200 {
		x := []float32{float32(i % 17), float32(i % 13), float32(i)}
		rows, queries = append(rows, db.Row{Key: fmt.Append(nil, i), Vector: x}), append(queries, db.Query{Vector: x})
	}
	c := filled(t, db.Schema{Dim: 3}, rows...)
	chart, err := Time(t.Context(), c, queries, db.SearchOptions{}, 50*time.Millisecond)
	must(t, err)
	if n := len(chart.Y.Names); n != len(stages)+1 || !strings.HasPrefix(chart.Y.Names[n-1], stages[0].name) {
		t.Errorf("stages: %q", chart.Y.Names)
	}
	for _, p := range chart.Series[0].Points {
		if p.X < 0 || math.IsNaN(p.X) {
			t.Errorf("%g µs", p.X)
		}
	}
	drawable(t, chart)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Time(cancelled, c, queries, db.SearchOptions{}, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Time(t.Context(), c, nil, db.SearchOptions{}, time.Second); !errors.Is(err, ErrFew) {
		t.Errorf("no queries: %v", err)
	}
}
