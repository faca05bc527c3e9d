// Command demo indexes the documentation and the source files of Go's standard library, which every machine
// with Go has, as texts: it answers questions, and predicts the packages that a file imports.
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
	"github.com/anndb/anndb/text"
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
	files, docs, err := readFiles(src)
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
	// Every fifth file is kept out: the model is asked for what it has not seen.
	var rows []db.Row
	var unseen []file
	for i, f := range files {
		if i%5 == 4 {
			unseen = append(unseen, f)
			continue
		}
		rows = append(rows, db.Row{Key: []byte(f.path), Text: f.text, Labels: f.imports})
	}
	code, err := store(ctx, d, "code", text.Code, rows)
	if err != nil {
		return err
	}
	help, err := store(ctx, d, "docs", text.English, docs)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d documented declarations and %d files stored, %d kept out (%.1f s)\n",
		len(docs), len(rows), len(unseen), time.Since(start).Seconds())
	start = time.Now()
	if _, err := help.Build(ctx, "words", &index.Postings{}, nil); err != nil {
		return err
	}
	model := index.LCIF{Weight: "tfidf", Objective: lcif.PrecisionAt3, Folds: 5, TuneRows: 600}
	if _, err := code.Build(ctx, "imports", &model, nil); err != nil {
		return err
	}
	fmt.Fprintf(out, "an index of words and a label model built (%.1f s)\n", time.Since(start).Seconds())
	if err := search(ctx, out, help); err != nil {
		return err
	}
	return predict(ctx, out, code, unseen)
}

// store makes a collection of texts. Rows of a key that occurs twice are stored once.
func store(ctx context.Context, d *db.DB, name, analyzer string, rows []db.Row) (db.Collection, error) {
	c, err := d.Create(ctx, name, db.Schema{Text: &text.Schema{Analyzer: analyzer}})
	if err != nil {
		return c, err
	}
	return c, d.Update(ctx, func(tx *db.Tx) error {
		for _, r := range rows {
			if err := tx.Collection(name).Put(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// questions are asked of the documentation.
var questions = []string{
	"how do I flush a writer", `copy a reader to a writer "until either EOF"`,
	"+base64 encode to a string -decode",
}

// search prints the best answers to the questions.
func search(ctx context.Context, out io.Writer, docs db.Collection) error {
	english := text.ByName(text.English)
	for _, q := range questions {
		start := time.Now()
		found, err := docs.Search(ctx, db.Query{Text: q}, &db.SearchOptions{K: 3, Include: db.Text})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%s (%v)\n", q, time.Since(start).Round(time.Microsecond))
		terms := map[string]bool{}
		english(q, func(t text.Token) { terms[t.Term] = true })
		for _, hit := range found.Hits {
			snippet := text.Snippet(hit.Text, terms, english,
				text.SnippetOptions{Start: "[", End: "]", Runes: 120})
			fmt.Fprintf(out, "  %.1f %s\n       %s\n", -hit.Distance, hit.Key, snippet)
		}
	}
	return nil
}

// shown is the number of files whose imports are shown.
const shown = 4

// predict prints what some files should import, and how often the first guess for a file is right.
func predict(ctx context.Context, out io.Writer, code db.Collection, files []file) error {
	fmt.Fprintln(out, "\nImports predicted from the rest of a file, right ones in brackets:")
	queries := make([]db.Query, len(files))
	for i, f := range files {
		queries[i].Text = text.Plain(f.text)
	}
	for i := range min(shown, len(files)) {
		at := (2*i + 1) * len(files) / (2 * shown)
		f := files[at]
		best, err := code.Predict(ctx, queries[at],
			&db.PredictOptions{Index: "imports", Top: 5, Explain: true})
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
	start := time.Now()
	predicted, err := code.PredictBatch(ctx, queries, &db.PredictOptions{Index: "imports", Top: 1})
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
