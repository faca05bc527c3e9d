package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/goroot"
	"github.com/anndb/anndb/internal/lsa"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/vector"
)

// demoCmd does the main job on data that every machine with Go has.
type demoCmd struct {
	File string `help:"Keep the database in this file; a temporary one if not given." placeholder:"FILE"`
	forceFlag
	Goroot string   `help:"Go installation to index; the one in use if not given." placeholder:"DIR"`
	Near   []string `help:"Show the neighbours of these, such as net/http.Get." placeholder:"NAME"`
	Seed   uint64   `help:"Seed of everything random." default:"0"`
}

const (
	demoCollection = "go"
	demoIndex      = "main"
	demoDims       = 128
	// demoQueries documents at most are kept out of the collection, so that
	// recall is measured on queries that no index has seen.
	demoQueries = 500
	// Words in fewer documents say little, words in more than a fifth of them
	// even less.
	demoMinDocs  = 3
	demoMaxShare = 0.2
	demoRounds   = 4
)

// demoNear is what the demo shows where nothing else is asked for.
var demoNear = []string{
	"strings.Index", "net/http.Get", "sort.Slice",
	"encoding/json.Marshal", "os.ReadFile", "crypto/sha256.Sum256",
}

// Run executes the command.
func (c *demoCmd) Run(a *app) (err error) {
	path, remove, err := c.path()
	if err != nil {
		return err
	}
	defer remove()
	start := time.Now()
	corpus, err := c.corpus(a)
	if err != nil {
		return err
	}
	steps := table.New("step", "what", "seconds:1")
	steps.Add("read", fmt.Sprintf("%d declarations of %s", len(corpus.docs), corpus.root), corpus.readSeconds)
	steps.Add("weigh", fmt.Sprintf("tf-idf over %d words", corpus.words), corpus.weighSeconds)
	steps.Add("reduce", fmt.Sprintf("truncated SVD to %d dimensions", corpus.dims), corpus.reduceSeconds)
	d, err := db.Open(a.ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	stored := time.Now()
	if err := corpus.store(a, d); err != nil {
		return err
	}
	rows := len(corpus.docs) - len(corpus.queries)
	steps.Add("store", fmt.Sprintf("%d rows", rows), time.Since(stored).Seconds())
	o := db.Forest{Seed: c.Seed}
	info, err := d.Collection(demoCollection).Build(db.WithProgress(a.ctx, a.building), demoIndex, &o)
	if err != nil {
		return err
	}
	for _, stage := range stagesOf(info) {
		steps.Add("build: "+stage.name, "", stage.seconds)
	}
	a.progress.End()
	imports, err := c.imports(a, d, corpus.root, steps)
	if err != nil {
		return err
	}
	err = d.View(func(s *db.Snapshot) error {
		near, err := c.neighbours(a, s)
		if err != nil {
			return err
		}
		results, err := corpus.evaluate(a, s, info)
		if err != nil {
			return err
		}
		sections := []table.Section{
			steps.As("steps", "What was done"),
			near.As("neighbours", "What is near"),
			results.As("measured", fmt.Sprintf("Recall and time a query in µs, k = 10, one thread, "+
				"%d declarations that are not in the collection", len(corpus.queries))),
		}
		return a.Report(append(sections, imports...)...)
	})
	if err != nil {
		return err
	}
	a.Title("\n%.0f s in all.", time.Since(start).Seconds())
	if c.File != "" {
		a.Title("Kept in %s; try: anndb search %s %s --key net/http.Get --payload", c.File, c.File, demoCollection)
		a.Title("or: anndb explain %s %s --features listener=3,accept=2,conn=5", c.File, demoFiles)
	}
	return nil
}

// path returns the path of the database, and a function that removes a temporary one.
func (c *demoCmd) path() (string, func(), error) {
	if c.File == "" {
		dir, err := os.MkdirTemp("", "anndb-demo-")
		return filepath.Join(dir, "go.anndb"), func() { os.RemoveAll(dir) }, err
	}
	err := c.refuse([]string{c.File})
	if err == nil {
		err = os.Remove(c.File)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return c.File, func() {}, err
}

// demoCorpus is the documents as vectors.
type demoCorpus struct {
	root        string
	docs        []goroot.Document
	vectors     [][]float32
	dims, words int
	queries     map[int]bool // documents kept out of the collection

	readSeconds, weighSeconds, reduceSeconds float64
}

// corpus reads the source and reduces it to vectors.
func (c *demoCmd) corpus(a *app) (*demoCorpus, error) {
	out := &demoCorpus{root: c.Goroot}
	start := time.Now()
	lap := func() float64 {
		took := time.Since(start).Seconds()
		start = time.Now()
		return took
	}
	var err error
	if out.root == "" {
		if out.root, err = goroot.Find(a.ctx); err != nil {
			return nil, err
		}
	}
	docs, err := goroot.Walk(a.ctx, filepath.Join(out.root, "src"), a.flags.Workers, a.progress.Steps("read"))
	if err != nil {
		return nil, err
	}
	out.readSeconds = lap()
	a.progress.Update("weigh", 0, 0)
	m, words, err := goroot.TFIDF(a.ctx, docs, demoMinDocs, demoMaxShare, a.flags.Workers)
	if err != nil {
		return nil, err
	}
	out.words, out.weighSeconds = len(words), lap()
	// A small tree has few documents; half its rank is still a reduction.
	out.dims = max(1, min(demoDims, m.Rows/2, m.Cols/2))
	data, _, err := lsa.SVD(a.ctx, m, lsa.Options{
		Dims: out.dims, Rounds: demoRounds, Seed: c.Seed, Workers: a.flags.Workers,
		Progress: a.progress.Steps("reduce"),
	})
	if err != nil {
		return nil, err
	}
	out.reduceSeconds = lap()
	for i := range docs {
		v := data[i*out.dims : (i+1)*out.dims]
		if vector.Dot(v, v) == 0 { // nothing but rare and common words
			continue
		}
		out.docs = append(out.docs, docs[i])
		out.vectors = append(out.vectors, v)
	}
	out.draw(c)
	return out, nil
}

// draw chooses the queries: a twentieth of the documents at most, none of
// those whose neighbours are shown.
func (c *demoCorpus) draw(cmd *demoCmd) {
	keep := map[string]bool{}
	for _, name := range cmd.near() {
		keep[name] = true
	}
	c.queries = map[int]bool{}
	want := min(demoQueries, len(c.docs)/20)
	for _, i := range rand.New(rand.NewPCG(cmd.Seed, 0x64656d6f)).Perm(len(c.docs)) {
		if len(c.queries) >= want {
			break
		}
		if !keep[c.docs[i].Key] {
			c.queries[i] = true
		}
	}
}

func (c *demoCmd) near() []string {
	if len(c.Near) > 0 {
		return c.Near
	}
	return demoNear
}

// store writes all documents but the queries.
func (c *demoCorpus) store(a *app, d *db.DB) error {
	_, err := d.Create(a.ctx, demoCollection, db.Schema{Dim: c.dims, Metric: vector.Cosine})
	if err != nil {
		return err
	}
	const batch = 4096
	rows := make([]db.Row, 0, batch)
	for i, doc := range c.docs {
		if !c.queries[i] {
			rows = append(rows, db.Row{
				Key: []byte(doc.Key), Vector: c.vectors[i],
				Labels: []string{doc.Kind, "package " + doc.Package}, Payload: []byte(doc.Synopsis),
			})
		}
		if len(rows) == batch || i == len(c.docs)-1 {
			if err := putRows(a, d, demoCollection, rows, db.TxCollection.Insert); err != nil {
				return err
			}
			rows = rows[:0]
			a.progress.Update("store", i+1, len(c.docs))
		}
	}
	return nil
}

// neighbours shows what is near some declarations.
func (c *demoCmd) neighbours(a *app, s *db.Snapshot) (*table.Table, error) {
	t := table.New("of", "near", "distance:3", "what it is")
	const shown = 5
	for _, name := range c.near() {
		row, err := s.Collection(demoCollection).Get([]byte(name))
		if errors.Is(err, db.ErrNotFound) {
			if len(c.Near) > 0 {
				return nil, usagef("--near: the library has no %s", name)
			}
			continue // older or newer libraries may lack one
		}
		if err != nil {
			return nil, err
		}
		near, err := s.Collection(demoCollection).Search(a.ctx, db.Query{Key: row.Key}, &db.SearchOptions{K: shown})
		if err != nil {
			return nil, err
		}
		of := name
		for _, h := range near.Hits {
			found, err := s.Collection(demoCollection).GetRow(h.Row)
			if err != nil {
				return nil, err
			}
			t.Add(of, string(h.Key), h.Distance, clip(string(found.Payload), 70))
			if a.People() {
				of = "" // once is enough for people
			}
		}
	}
	return t, nil
}

// clip shortens text to n characters.
func clip(text string, n int) string {
	r := []rune(text)
	if len(r) <= n {
		return text
	}
	return string(r[:n-1]) + "…"
}

// evaluate measures the exact scan and the index.
func (c *demoCorpus) evaluate(a *app, s *db.Snapshot, info db.IndexInfo) (*table.Table, error) {
	q := &querySet{coll: demoCollection, k: 10}
	for i, v := range c.vectors {
		if c.queries[i] {
			q.queries = append(q.queries, db.Query{Vector: v})
		}
	}
	if len(q.queries) == 0 {
		return table.New(), nil
	}
	t, err := q.exact(a, s, a.flags.Workers)
	if err != nil {
		return nil, err
	}
	variants := []variant{{index: db.Flat, setting: "flat", options: db.SearchOptions{Index: db.Flat}}}
	if info.Curve != nil {
		variants = append(variants, byRecall(info, q.k, []float64{0.90, 0.95, 0.99})...)
	}
	return q.measureAll(a, s, t, variants, effort{rounds: 3, threads: 1})
}
