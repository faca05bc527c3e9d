package main

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/goroot"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
)

const (
	demoFiles  = "files"
	demoLabels = "imports"
	// demoFewFiles is with how few files the second half is left out.
	demoFewFiles = 30
	// demoTestShare of the files are kept out of the collection.
	demoTestShare = 0.2
	// Words in fewer files of the collection only make it larger.
	demoMinFiles = 2
	// demoShownFiles is for how many files predictions are shown.
	demoShownFiles = 4
)

// demoModel tunes on a part of the files: what is best for some hundred of
// them hardly differs from what is best for all.
var demoModel = db.LCIF{Weight: "tfidf", Objective: lcif.PrecisionAt3, Folds: 5, TuneRows: 600}

// fileCorpus is the source files of a library, divided by file.
type fileCorpus struct {
	train []goroot.File
	test  []goroot.File
}

// files reads the library once more, file by file, and divides it. Without
// enough files there is nothing to divide.
func (c *demoCmd) files(a *app, root string) (*fileCorpus, error) {
	src, progress := filepath.Join(root, "src"), a.progress.Steps("read files")
	files, err := goroot.Files(a.ctx, src, a.flags.Workers, progress)
	if err != nil || len(files) < demoFewFiles {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x696d7074))
	rng.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	n := int(demoTestShare * float64(len(files)))
	return &fileCorpus{train: files[n:], test: files[:n]}, nil
}

// features are the words of a file with their counts, in order.
func features(f goroot.File, keep func(word string) bool) []db.Feature {
	var out []db.Feature
	for _, w := range slices.Sorted(maps.Keys(f.Words)) {
		if keep(w) {
			out = append(out, db.Feature{Name: w, Value: float32(f.Words[w])})
		}
	}
	return out
}

// store writes the files that are learned from.
func (c *fileCorpus) store(a *app, d *db.DB) error {
	if _, err := d.Create(a.ctx, demoFiles, db.Schema{Named: true}); err != nil {
		return err
	}
	files := map[string]int{}
	for _, f := range c.train {
		for w := range f.Words {
			files[w]++
		}
	}
	const batch = 1024
	for lo := 0; lo < len(c.train); lo += batch {
		hi := min(lo+batch, len(c.train))
		rows := make([]db.Row, 0, batch)
		for _, f := range c.train[lo:hi] {
			rows = append(rows, db.Row{
				Key: []byte(f.Path), Labels: f.Imports,
				Features: features(f, func(w string) bool { return files[w] >= demoMinFiles }),
			})
		}
		if err := putRows(a, d, demoFiles, rows, db.TxCollection.Insert); err != nil {
			return err
		}
		a.progress.Update("store files", hi, len(c.train))
	}
	return nil
}

// imports is the second half: predict the packages that a file imports from
// its words. Its steps are added to those of the first.
func (c *demoCmd) imports(a *app, d *db.DB, root string, steps *table.Table) ([]table.Section, error) {
	start := time.Now()
	lap := func() float64 {
		took := time.Since(start).Seconds()
		start = time.Now()
		return took
	}
	corpus, err := c.files(a, root)
	if err != nil || corpus == nil {
		return nil, err
	}
	files := len(corpus.train) + len(corpus.test)
	steps.Add("read files", fmt.Sprintf("%d files with their words and imports", files), lap())
	if err := corpus.store(a, d); err != nil {
		return nil, err
	}
	info, err := infoOf(d, demoFiles)
	if err != nil {
		return nil, err
	}
	steps.Add("store files", fmt.Sprintf("%d rows of %d words", info.Live, info.Features), lap())
	o := demoModel
	o.Seed = c.Seed
	model, err := d.Collection(demoFiles).Build(db.WithProgress(a.ctx, a.building), demoLabels, &o)
	if err != nil {
		return nil, err
	}
	for _, stage := range stagesOf(model) {
		steps.Add("label model: "+stage.name, "", stage.seconds)
	}
	a.progress.End()
	var sections []table.Section
	err = d.View(func(s *db.Snapshot) error {
		measured, err := corpus.measure(a, s)
		if err != nil {
			return err
		}
		shown, err := corpus.show(a, s)
		if err != nil {
			return err
		}
		sections = []table.Section{
			shown.As("imports", "Packages that files import, predicted from their words; "+
				"import declarations left out; right ones in brackets"),
			measured.As("imports measured", fmt.Sprintf("Precision of the first 1, 3 and 5 packages, "+
				"%d files that are not in the collection; perfect is what a file's number of imports allows",
				len(corpus.test))),
		}
		return nil
	})
	return sections, err
}

// queries are the files that are tested on.
func (c *fileCorpus) queries() *labelQueries {
	q := &labelQueries{}
	for _, f := range c.test {
		q.keys = append(q.keys, f.Path)
		q.queries = append(q.queries, db.Query{Features: features(f, func(string) bool { return true })})
		q.labels = append(q.labels, f.Imports)
	}
	return q
}

// measure ranks packages for the test files: by how many files import them,
// by the model, and as they are.
func (c *fileCorpus) measure(a *app, s *db.Snapshot) (*table.Table, error) {
	q := c.queries()
	t, err := newLabelTest(s, demoFiles, q)
	if err != nil {
		return nil, err
	}
	counts, err := s.Collection(demoFiles).Labels()
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(counts, func(a, b db.LabelCount) int { return cmp.Compare(b.Rows, a.Rows) })
	var majority []db.Prediction
	for _, l := range counts[:min(slices.Max(rankedAt), len(counts))] {
		majority = append(majority, db.Prediction{Label: l.Label})
	}
	perfect := make([][]db.Prediction, len(q.labels))
	for i, imports := range q.labels {
		for _, l := range imports {
			perfect[i] = append(perfect[i], db.Prediction{Label: l})
		}
	}
	out := table.New("by", "p@1:3", "p@3:3", "p@5:3", "ndcg@5:3", "µs a file:0")
	add := func(by string, found [][]db.Prediction, micros any) error {
		r, err := labels.EvaluateRanking(t.truth, t.scores(found), rankedAt)
		if err != nil {
			return err
		}
		out.Add(by, r.Precision[0], r.Precision[1], r.Precision[2], r.NDCG[2], micros)
		return nil
	}
	frequent := slices.Repeat([][]db.Prediction{majority}, len(q.keys))
	if err := add("majority: the most imported packages", frequent, nil); err != nil {
		return nil, err
	}
	start := time.Now()
	p := predicting{a: a, s: s, info: db.CollectionInfo{Name: demoFiles},
		options: &db.PredictOptions{Index: demoLabels, Top: slices.Max(rankedAt)}, workers: 1}
	best, err := p.all(q.queries)
	if err != nil {
		return nil, err
	}
	if err := add("label model", best, time.Since(start).Seconds()*1e6/float64(len(best))); err != nil {
		return nil, err
	}
	return out, add("perfect", perfect, nil)
}

// show predicts the imports of some files, with the words behind the first.
func (c *fileCorpus) show(a *app, s *db.Snapshot) (*table.Table, error) {
	t := table.New("file", "imports", "predicted", "because of")
	q := c.queries()
	n := min(demoShownFiles, len(q.keys))
	found, err := s.Collection(demoFiles).PredictBatch(a.ctx, q.queries[:n],
		&db.PredictOptions{Index: demoLabels, Top: 5, Explain: true})
	if err != nil {
		return nil, err
	}
	for i, predictions := range found {
		var names []string
		why := ""
		for rank, p := range predictions.Labels {
			name := p.Label
			if slices.Contains(q.labels[i], name) {
				name = "[" + name + "]"
			}
			names = append(names, name)
			if rank == 0 {
				why = because(p)
			}
		}
		t.Add(q.keys[i], clip(strings.Join(q.labels[i], " "), 60), strings.Join(names, " "), why)
	}
	return t, nil
}

// because names the most of what carried a label.
func because(p db.Prediction) string {
	const most = 3
	var features []string
	like := ""
	for _, part := range p.Why.Parts {
		for _, of := range part.Parts {
			switch {
			case of.Feature != "" && len(features) < most:
				features = append(features, of.Feature)
			case of.Key != nil && like == "":
				like = "like " + string(of.Key)
			}
		}
	}
	parts := features
	if like != "" {
		parts = append(parts, like)
	}
	return p.Label + ": " + strings.Join(parts, ", ")
}
