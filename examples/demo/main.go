// Command demo indexes the source files of Go's standard library, which every machine with Go has,
// by their words: it finds files like others, and predicts the packages that a file imports.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/query/lcif"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err == nil {
		err = run(ctx, os.Stdout, filepath.Join(strings.TrimSpace(string(root)), "src"))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run indexes the files below a folder in a temporary database and prints what it finds.
func run(ctx context.Context, out io.Writer, src string) error {
	start := time.Now()
	files, err := readFiles(src)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "anndb-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d, err := db.Open(ctx, filepath.Join(dir, "go.anndb"), nil)
	if err != nil {
		return err
	}
	defer d.Close()
	if _, err := d.Create(ctx, "files", db.Schema{Named: true}); err != nil {
		return err
	}
	// Every fifth file is kept out: the model is asked for what it has not seen.
	var unseen []file
	err = d.Update(ctx, func(tx *db.Tx) error {
		unseen = nil // an update can run twice
		for i, f := range files {
			if i%5 == 4 {
				unseen = append(unseen, f)
				continue
			}
			row := db.Row{Key: []byte(f.path), Features: f.words, Labels: f.imports}
			if err := tx.Collection("files").Insert(row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d files stored, %d kept out (%.1f s)\n", len(files)-len(unseen), len(unseen),
		time.Since(start).Seconds())
	start = time.Now()
	coll := d.Collection("files")
	if _, err := coll.Build(ctx, "words", &index.Postings{}, nil); err != nil {
		return err
	}
	model := index.LCIF{Weight: "tfidf", Objective: lcif.PrecisionAt3, Folds: 5, TuneRows: 600}
	if _, err := coll.Build(ctx, "imports", &model, nil); err != nil {
		return err
	}
	fmt.Fprintf(out, "an index of words and a label model built (%.1f s)\n", time.Since(start).Seconds())
	if err := search(ctx, out, coll, unseen); err != nil {
		return err
	}
	return predict(ctx, out, coll, unseen)
}

// shown is the number of files that are searched for, and whose imports are shown.
const shown = 4

// search prints the stored files whose words are most like those of some others.
func search(ctx context.Context, out io.Writer, coll db.Collection, files []file) error {
	fmt.Fprintln(out, "\nFiles with similar words:")
	for _, f := range spread(files) {
		found, err := coll.Search(ctx, db.Query{Features: f.words}, &db.SearchOptions{K: 3})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %s\n", f.path)
		for _, hit := range found.Hits {
			fmt.Fprintf(out, "    %.3f %s\n", hit.Distance, hit.Key)
		}
	}
	return nil
}

// predict prints what some files should import, and how often the first guess for a file is right.
func predict(ctx context.Context, out io.Writer, coll db.Collection, files []file) error {
	fmt.Fprintln(out, "\nImports predicted from the other words of a file, right ones in brackets:")
	for _, f := range spread(files) {
		best, err := coll.Predict(ctx, db.Query{Features: f.words}, &db.PredictOptions{Index: "imports", Top: 5, Explain: true})
		if err != nil {
			return err
		}
		var names []string
		for _, p := range best.Labels {
			if slices.Contains(f.imports, p.Label) {
				p.Label = "[" + p.Label + "]"
			}
			names = append(names, p.Label)
		}
		fmt.Fprintf(out, "  %s: %s\n", f.path, strings.Join(names, " "))
		if len(best.Labels) > 0 {
			fmt.Fprintf(out, "    %s, because of %s\n", best.Labels[0].Label, because(best.Labels[0]))
		}
	}
	queries := make([]db.Query, len(files))
	for i, f := range files {
		queries[i].Features = f.words
	}
	start := time.Now()
	predicted, err := coll.PredictBatch(ctx, queries, &db.PredictOptions{Index: "imports", Top: 1})
	if err != nil {
		return err
	}
	right := 0
	for i, p := range predicted {
		if len(p.Labels) > 0 && slices.Contains(files[i].imports, p.Labels[0].Label) {
			right++
		}
	}
	fmt.Fprintf(out, "\nThe first guess is right for %d of %d files (%v each).\n", right, len(files),
		(time.Since(start) / time.Duration(len(files))).Round(time.Microsecond))
	return nil
}

// because names the first words and the first file that speak for a label.
func because(p db.Prediction) string {
	var words []string
	like := ""
	for _, part := range p.Why.Parts {
		for _, of := range part.Parts {
			switch {
			case of.Feature != "" && len(words) < 3:
				words = append(words, of.Feature)
			case of.Key != nil && like == "":
				like = string(of.Key)
			}
		}
	}
	if like != "" {
		words = append(words, "the file "+like)
	}
	return strings.Join(words, ", ")
}

// spread returns some files from all parts of a list.
func spread(files []file) (some []file) {
	for i := range min(shown, len(files)) {
		some = append(some, files[(2*i+1)*len(files)/(2*shown)])
	}
	return some
}
