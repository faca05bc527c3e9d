package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// buildUntil builds an index and cancels the build when it reports a stage.
func buildUntil(t *testing.T, d *DB, o *Forest, dir, stage string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx = WithProgress(WithCheckpoint(ctx, dir), func(s string, done, _ int) {
		if s == stage && done > 0 {
			cancel()
		}
	})
	if _, err := d.Collection("c").Build(ctx, "x", o); !errors.Is(err, context.Canceled) {
		t.Fatalf("a build that is cancelled in stage %q: %v", stage, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) == 0 {
		t.Fatalf("after an interruption in stage %q: %d files, %v", stage, len(files), err)
	}
}

// change deletes some rows of clustered's collection and adds others.
func change(t *testing.T, d *DB) {
	t.Helper()
	must(t, d.Update(t.Context(), func(tx *Tx) error {
		c := tx.Collection("c")
		for i := range 30 {
			x := make([]float32, 20)
			x[i%20] = float32(i)
			if err := c.Put(Row{Key: fmt.Append(nil, "new", i), Vector: x}); err != nil {
				return err
			}
			if err := c.Delete(fmt.Append(nil, 100+7*i)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// found returns the answers of index x for some queries, with one setting.
func found(t *testing.T, d *DB) (all string) {
	t.Helper()
	for i := range 40 {
		x := make([]float32, 20)
		for j := range x {
			x[j] = float32((i * 31 * j) % 9)
		}
		o := &SearchOptions{Index: "x", Params: &query.Params{Sketch: true, R: 20, Beam: 20}}
		r, err := d.Collection("c").Search(t.Context(), Query{Vector: x}, o)
		must(t, err)
		for _, h := range r.Hits {
			all += fmt.Sprintf("%s %g ", h.Key, h.Distance)
		}
	}
	return all
}

// A build that is interrupted continues from its folder and makes the index that it would have made, also
// if rows were written and deleted since.
func TestBuildContinues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		metric vector.Metric
		o      Forest
		stages []string
	}{
		{vector.L2, Forest{}, []string{"labels", "trees", "write"}},
		{vector.Cosine, Forest{}, []string{"trees"}},
		{vector.InnerProduct, Forest{}, []string{"trees"}},
		{vector.L2, Forest{Learner: "rf", Trees: 4}, []string{"trees"}},
	} {
		o := c.o
		o.Source, o.Seed, o.Holdout = "approximate", 1, 100
		whole := clustered(t, 2000, 20, c.metric)
		_, err := whole.Collection("c").Build(t.Context(), "x", &o)
		must(t, err)
		before := found(t, whole)
		change(t, whole)
		want := found(t, whole)
		if before == want {
			t.Fatal("the changes change no answer")
		}
		for _, stage := range c.stages {
			t.Run(fmt.Sprintf("%v%s/%s", c.metric, o.Learner, stage), func(t *testing.T) {
				d := clustered(t, 2000, 20, c.metric)
				dir := filepath.Join(t.TempDir(), "folder")
				buildUntil(t, d, &o, dir, stage)
				change(t, d)
				info, err := d.Collection("c").Build(WithCheckpoint(t.Context(), dir), "x", &o)
				must(t, err)
				if info.Rows != 2000 {
					t.Errorf("the index covers %d rows", info.Rows)
				}
				if got := found(t, d); got != want {
					t.Error("other answers than by a build that was not interrupted")
				}
				if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the folder is left: %v", err)
				}
				must(t, d.Check(t.Context(), func(e *CorruptError) { t.Error(e) }))
			})
		}
	}
}

// Results of other rows or options are not used, nor those of rows of which many have changed.
func TestBuildStartsAgain(t *testing.T) {
	t.Parallel()
	same := func(d *DB) *DB { return d }
	queries := make([][]float32, 150)
	for i := range queries {
		queries[i] = make([]float32, 20)
		queries[i][i%20] = float32(i)
	}
	o := Forest{Source: "approximate", Seed: 1, Holdout: 100}
	otherSeed, otherQueries := o, o
	otherSeed.Seed, otherQueries.TrainingQueries = 2, queries
	for _, c := range []struct {
		name  string
		o     Forest
		other func(d *DB) *DB
		rows  int
	}{
		{"other options", otherSeed, same, 2030},
		{"training queries", otherQueries, same, 2030},
		{"another collection", o, func(*DB) *DB { return clustered(t, 2001, 21, vector.L2) }, 2001},
		{"another metric", o, func(*DB) *DB { return clustered(t, 2000, 20, vector.Cosine) }, 2000},
		{"other numbers", o, func(d *DB) *DB { must(t, d.Reorder(t.Context())); return d }, 1946},
		{"many new rows", o, func(d *DB) *DB {
			must(t, d.Update(t.Context(), func(tx *Tx) error {
				for i := range 300 {
					row := Row{Key: fmt.Append(nil, "more", i), Vector: make([]float32, 20)}
					if err := tx.Collection("c").Put(row); err != nil {
						return err
					}
				}
				return nil
			}))
			return d
		}, 2330},
	} {
		d := clustered(t, 2000, 20, vector.L2)
		dir := filepath.Join(t.TempDir(), "folder")
		buildUntil(t, d, &o, dir, "trees")
		change(t, d)
		info, err := c.other(d).Collection("c").Build(WithCheckpoint(t.Context(), dir), "x", &c.o)
		if err != nil || info.Rows != c.rows {
			t.Errorf("%s: an index of %d rows, %v", c.name, info.Rows, err)
		}
	}
}

// Only Build uses the folder.
func TestCheckpointOfOtherCalls(t *testing.T) {
	t.Parallel()
	d := clustered(t, 2000, 20, vector.L2)
	o := &Forest{Source: "approximate", Seed: 1, Holdout: 100}
	_, err := d.Collection("c").Build(t.Context(), "x", o)
	must(t, err)
	dir := filepath.Join(t.TempDir(), "folder")
	buildUntil(t, d, o, dir, "trees")
	ctx := WithCheckpoint(t.Context(), dir)
	must(t, d.Reorder(ctx))
	_, err = d.Maintain(ctx, 0)
	must(t, err)
	if files, err := os.ReadDir(dir); err != nil || len(files) != 3 {
		t.Errorf("%v, %v", files, err)
	}
}

// A build whose folder cannot be made changes nothing.
func TestCheckpointFolder(t *testing.T) {
	t.Parallel()
	d := clustered(t, 300, 20, vector.L2)
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	var path *fs.PathError
	if _, err := d.Collection("c").Build(WithCheckpoint(t.Context(), file), "x", nil); !errors.As(err, &path) ||
		!strings.HasPrefix(err.Error(), "db: build: ") {
		t.Errorf("a file as the folder: %v", err)
	}
	if _, err := d.Collection("c").Index("x"); err == nil {
		t.Error("the index was built")
	}
}
