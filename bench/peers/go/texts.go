package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/anndb/anndb/bench/child"
	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/custom"
	"github.com/blevesearch/bleve/v2/analysis/tokenizer/whitespace"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/scorer"
	"github.com/blevesearch/bleve/v2/search/searcher"
	index "github.com/blevesearch/bleve_index_api"
	chromemgo "github.com/philippgille/chromem-go"
)

// textEngine returns the library of texts with a name.
func textEngine(name string) child.TextEngine {
	switch name {
	case "bleve":
		return &bleveTexts{}
	case "bleve-bm25":
		return &bleveTexts{exact: true}
	case "sqlite":
		return &sqlite{}
	case "chromem":
		return &chromemTexts{}
	case "by-hand":
		return &byHand{}
	}
	return nil
}

// bleveTexts is an index of bleve's offline builder: one segment of terms with their counts and lengths, and
// nothing else.
type bleveTexts struct {
	index bleve.Index
	// exact ranks by BM25 as Robertson and Zaragoza define it. bleve's own takes the root of a count, the
	// number of different terms for that of all terms, the square of the weight of a term, and multiplies by
	// the share of the terms of the query that a row has.
	exact         bool
	lengths, rows float64
}

const field = "t"

func (b *bleveTexts) Build(_ context.Context, rows []child.Document, folder string) (err error) {
	m := bleve.NewIndexMapping()
	m.ScoringModel = index.BM25Scoring
	err = m.AddCustomAnalyzer("terms", map[string]any{"type": custom.Name, "tokenizer": whitespace.Name})
	if err != nil {
		return err
	}
	terms := mapping.NewTextFieldMapping()
	terms.Analyzer, terms.Store, terms.IncludeInAll = "terms", false, false
	terms.IncludeTermVectors, terms.DocValues = false, false
	doc := bleve.NewDocumentStaticMapping()
	doc.AddFieldMappingsAt(field, terms)
	m.DefaultMapping = doc
	path := filepath.Join(folder, "bleve")
	builder, err := bleve.NewBuilder(path, m, map[string]any{"buildPathPrefix": folder})
	if err != nil {
		return err
	}
	for i, r := range rows {
		if len(r.Terms) > 0 {
			b.rows++
			b.lengths += float64(len(r.Terms))
		}
		if err := builder.Index(strconv.Itoa(i), map[string]any{field: strings.Join(r.Terms, " ")}); err != nil {
			return err
		}
	}
	if err := builder.Close(); err != nil {
		return err
	}
	b.index, err = bleve.Open(path)
	return err
}

func (b *bleveTexts) Search(ctx context.Context, q child.Document, k int) (out []child.Found, err error) {
	var request *bleve.SearchRequest
	if b.exact {
		request = bleve.NewSearchRequest(&plain{b, q.Terms})
	} else {
		match := bleve.NewMatchQuery(strings.Join(q.Terms, " "))
		match.SetField(field)
		request = bleve.NewSearchRequest(match)
	}
	request.Size = k
	found, err := b.index.SearchInContext(ctx, request)
	if err != nil {
		return nil, err
	}
	for _, h := range found.Hits {
		row, err := strconv.ParseUint(h.ID, 10, 32)
		if err != nil {
			return nil, err
		}
		out = append(out, child.Found{Row: uint32(row), Score: h.Score})
	}
	return out, nil
}

func (b *bleveTexts) Close() error { return b.index.Close() }

// plain is a query for rows that have any of the terms, scored by the sum of the scores of bleve's own
// searchers of terms.
type plain struct {
	of    *bleveTexts
	terms []string
}

// asDefined makes bleve's score of a term that of BM25 up to a factor: counts instead of their roots, and a
// mean length that bleve rounds up, which k1 and b make good for.
func (b *bleveTexts) asDefined() *search.BM25Stats {
	const k1, bb = 1.2, 0.75
	for i := range scorer.SqrtCache {
		scorer.SqrtCache[i] = float64(i)
	}
	mean := b.lengths / b.rows
	perLength := k1 * bb / mean * math.Ceil(mean)
	search.BM25_k1 = k1*(1-bb) + perLength
	search.BM25_b = perLength / search.BM25_k1
	return &search.BM25Stats{DocCount: b.rows, FieldCardinality: map[string]int{field: int(b.lengths)}}
}

func (p *plain) Searcher(
	ctx context.Context, r index.IndexReader, _ mapping.IndexMapping, o search.SearcherOptions,
) (search.Searcher, error) {
	ctx = context.WithValue(ctx, search.BM25StatsKey, p.of.asDefined())
	s := &sum{}
	for _, t := range p.terms {
		of, err := searcher.NewTermSearcher(ctx, r, t, field, 1, o)
		if err != nil {
			return nil, err
		}
		s.of = append(s.of, of)
	}
	s.at = make([]*search.DocumentMatch, len(s.of))
	return s, nil
}

// sum finds the rows that any of some searchers finds, as bleve's DisjunctionSliceSearcher does, and scores
// them by the sum.
type sum struct {
	of      []search.Searcher
	at      []*search.DocumentMatch
	started bool
}

func (s *sum) Next(ctx *search.SearchContext) (least *search.DocumentMatch, err error) {
	if !s.started {
		s.started = true
		for i, of := range s.of {
			if s.at[i], err = of.Next(ctx); err != nil {
				return nil, err
			}
		}
	}
	for _, d := range s.at {
		if d != nil && (least == nil || d.IndexInternalID.Compare(least.IndexInternalID) < 0) {
			least = d
		}
	}
	for i, d := range s.at {
		if d == nil || d != least && !d.IndexInternalID.Equals(least.IndexInternalID) {
			continue
		}
		if s.at[i], err = s.of[i].Next(ctx); err != nil {
			return nil, err
		}
		if d != least {
			least.Score += d.Score
			ctx.DocumentMatchPool.Put(d)
		}
	}
	return least, nil
}

func (s *sum) Advance(ctx *search.SearchContext, _ index.IndexInternalID) (*search.DocumentMatch, error) {
	return s.Next(ctx) // only conjunctions call it
}

func (s *sum) Close() (err error) {
	for _, of := range s.of {
		err = cmp.Or(err, of.Close())
	}
	return err
}

func (s *sum) Count() (n uint64) {
	for _, of := range s.of {
		n += of.Count()
	}
	return n
}

func (s *sum) DocumentMatchPoolSize() (n int) {
	for _, of := range s.of {
		n += of.DocumentMatchPoolSize()
	}
	return n + len(s.of)
}

func (s *sum) Weight() float64      { return 1 }
func (s *sum) SetQueryNorm(float64) {}
func (s *sum) Min() int             { return 0 }
func (s *sum) Size() int            { return 0 }

// sqlite is FTS5 of the program sqlite3, which is asked through a pipe.
type sqlite struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (s *sqlite) Build(ctx context.Context, rows []child.Document, folder string) (err error) {
	s.cmd = exec.CommandContext(ctx, "sqlite3", "-batch", filepath.Join(folder, "fts5.db"))
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.out = bufio.NewReader(out)
	s.cmd.Stderr = s.cmd.Stdout
	if err := s.cmd.Start(); err != nil {
		return err
	}
	w := bufio.NewWriter(s.in)
	fmt.Fprintln(w, "CREATE VIRTUAL TABLE t USING fts5(x, content='', "+
		"tokenize=\"unicode61 remove_diacritics 0\");\nBEGIN;")
	for i, r := range rows {
		fmt.Fprintf(w, "INSERT INTO t(rowid, x) VALUES (%d, %s);\n", i, quoted(strings.Join(r.Terms, " "), `'`))
	}
	fmt.Fprintln(w, "INSERT INTO t(t) VALUES ('optimize');\nCOMMIT;")
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = s.ask("")
	return err
}

func quoted(s, quote string) string { return quote + strings.ReplaceAll(s, quote, quote+quote) + quote }

// ask runs a statement and returns the lines of its result.
func (s *sqlite) ask(statement string) (lines []string, err error) {
	const end = "end of the result"
	if _, err := io.WriteString(s.in, statement+"\n.print "+end+"\n"); err != nil {
		return nil, err
	}
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if line = strings.TrimSpace(line); line == end {
			return lines, nil
		}
		lines = append(lines, line)
	}
}

func (s *sqlite) Search(_ context.Context, q child.Document, k int) (out []child.Found, err error) {
	if len(q.Terms) == 0 {
		return nil, nil
	}
	terms := make([]string, len(q.Terms))
	for i, t := range q.Terms {
		terms[i] = quoted(t, `"`)
	}
	lines, err := s.ask("SELECT rowid, rank FROM t WHERE t MATCH " + quoted(strings.Join(terms, " OR "), `'`) +
		" ORDER BY rank LIMIT " + strconv.Itoa(k) + ";")
	for _, line := range lines {
		var f child.Found
		if _, err := fmt.Sscanf(line, "%d|%g", &f.Row, &f.Score); err != nil {
			return nil, fmt.Errorf("sqlite3: %s", line)
		}
		f.Score = -f.Score
		out = append(out, f)
	}
	return out, err
}

func (s *sqlite) Close() error {
	_ = s.in.Close()
	return s.cmd.Wait()
}

// chromemTexts finds the nearest vectors by chromem-go, which compares with every row.
type chromemTexts struct{ rows *chromemgo.Collection }

func (c *chromemTexts) Build(ctx context.Context, rows []child.Document, folder string) (err error) {
	d := chromemgo.NewDB()
	if c.rows, err = d.CreateCollection("rows", nil, embed); err != nil {
		return err
	}
	documents := make([]chromemgo.Document, len(rows))
	for i, r := range rows {
		documents[i] = chromemgo.Document{ID: strconv.Itoa(i), Embedding: r.Vector, Content: cmp.Or(r.Text, "-")}
	}
	if err := c.rows.AddDocuments(ctx, documents, runtime.NumCPU()); err != nil {
		return err
	}
	return d.ExportToFile(filepath.Join(folder, "chromem.gob"), false, "")
}

func (c *chromemTexts) Search(ctx context.Context, q child.Document, k int) (out []child.Found, err error) {
	found, err := c.rows.QueryEmbedding(ctx, q.Vector, k, nil, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		row, err := strconv.ParseUint(r.ID, 10, 32)
		if err != nil {
			return nil, err
		}
		out = append(out, child.Found{Row: uint32(row), Score: float64(r.Similarity)})
	}
	return out, nil
}

func (c *chromemTexts) Close() error { return nil }

// byHand is what a Go program does without anndb: bleve for the words, chromem-go for the vectors, and the
// first 100 rows of both ranked by their reciprocal ranks.
type byHand struct {
	words   bleveTexts
	vectors chromemTexts
}

func (b *byHand) Build(ctx context.Context, rows []child.Document, folder string) error {
	if err := b.words.Build(ctx, rows, folder); err != nil {
		return err
	}
	return b.vectors.Build(ctx, rows, folder)
}

func (b *byHand) Search(ctx context.Context, q child.Document, k int) ([]child.Found, error) {
	const depth, offset = 100, 60
	words, err := b.words.Search(ctx, q, depth)
	if err != nil {
		return nil, err
	}
	near, err := b.vectors.Search(ctx, q, depth)
	if err != nil {
		return nil, err
	}
	scores := map[uint32]float64{}
	for _, list := range [][]child.Found{words, near} {
		for i, f := range list {
			scores[f.Row] += 1 / float64(offset+i+1)
		}
	}
	rows := slices.SortedFunc(maps.Keys(scores), func(x, y uint32) int {
		return cmp.Or(cmp.Compare(scores[y], scores[x]), cmp.Compare(x, y))
	})
	out := make([]child.Found, min(k, len(rows)))
	for i := range out {
		out[i] = child.Found{Row: rows[i], Score: scores[rows[i]]}
	}
	return out, nil
}

func (b *byHand) Close() error { return b.words.Close() }
