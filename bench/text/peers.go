package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/bench/child"
	"github.com/anndb/anndb/text"
)

// slow is the time of a round after which a peer gets no further one.
const slow = 10 * time.Second

// part is what is searched for: words, vectors or both.
type part string

const (
	byWords   part = "words"
	byVectors part = "vectors"
	byBoth    part = "both"
)

// of returns documents with the part only.
func (p part) of(all []child.Document) []child.Document {
	out := slices.Clone(all)
	for i := range out {
		switch p {
		case byWords:
			out[i].Vector = nil
		case byVectors:
			out[i].Text, out[i].Terms = "", nil
		}
	}
	return out
}

// peer is a line of the table.
type peer struct {
	name string
	part part
	// library is the name that bench/peers/go knows; anndb itself without one.
	library string
	child   *child.Texts
	built   *child.TextAnswer
	bytes   int64
	answer  *child.TextAnswer // with the least times
	took    time.Duration     // of the latest round
}

// peers returns the lines of the parts.
func peers(parts string) []*peer {
	all := []*peer{
		{name: "anndb, words", part: byWords},
		{name: "bleve, its BM25", part: byWords, library: "bleve"},
		{name: "bleve, BM25 as defined", part: byWords, library: "bleve-bm25"},
		{name: "SQLite FTS5, its BM25", part: byWords, library: "sqlite"},
		{name: "anndb, vectors", part: byVectors},
		{name: "chromem-go", part: byVectors, library: "chromem"},
		{name: "anndb, both", part: byBoth},
		{name: "bleve, chromem-go, ranks", part: byBoth, library: "by-hand"},
	}
	return slices.DeleteFunc(all, func(p *peer) bool { return !strings.Contains(parts, string(p.part)) })
}

// compare measures anndb and peers by n queries, all in turn, and prints a table.
func (s *set) compare(ctx context.Context, list []*peer, n int, analyzer, driver string) (err error) {
	by := text.ByName(analyzer)
	if by == nil {
		return fmt.Errorf("no analyzer %q", analyzer)
	}
	s.ask(n)
	analyze(s.rows, by)
	analyze(s.queries, by)
	scratch, err := os.MkdirTemp("", "text")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	list = slices.DeleteFunc(list, func(p *peer) bool {
		return p.part != byWords && s.rows[0].Vector == nil || p.missing(driver)
	})
	defer func() {
		for _, p := range list {
			if p.child != nil {
				err = errors.Join(err, p.child.Close())
			}
		}
	}()
	for i, p := range list {
		if err := p.build(ctx, s, filepath.Join(scratch, fmt.Sprint(i)), analyzer, driver); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for range 3 {
		for _, p := range list {
			if p.took > slow {
				continue
			}
			if err := p.search(s); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	s.printTable(list)
	return nil
}

// ask leaves n queries, every second one where there are twice as many.
func (s *set) ask(n int) {
	step := max(1, len(s.queries)/n)
	var queries []child.Document
	var belong []uint32
	for i := step - 1; i < len(s.queries) && len(queries) < n; i += step {
		queries = append(queries, s.queries[i])
		if s.right != nil {
			belong = append(belong, s.right[i])
		}
	}
	s.queries, s.right = queries, belong
}

// missing reports whether a peer is not on this machine, and says so.
func (p *peer) missing(driver string) bool {
	reason := ""
	if p.library != "" {
		if _, err := os.Stat(driver); err != nil {
			reason = "no " + driver + ": run bench/peers/build gopeers"
		}
	}
	if p.library == "sqlite" {
		if _, err := exec.LookPath("sqlite3"); err != nil {
			reason = "no program sqlite3: apt-get install sqlite3"
		}
	}
	if reason != "" {
		fmt.Fprintf(os.Stderr, "text: SKIPPED: %s: %s\n", p.name, reason)
	}
	return reason != ""
}

func (p *peer) build(ctx context.Context, s *set, folder, analyzer, driver string) (err error) {
	fmt.Fprintf(os.Stderr, "%s: %s builds\n", s.name, p.name)
	program, args := driver, []string{"texts", p.library}
	if p.library == "" {
		if program, err = os.Executable(); err != nil {
			return err
		}
		args = []string{"-child", "-analyzer", analyzer}
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	if p.child, err = child.StartTexts(ctx, program, args...); err != nil {
		return err
	}
	if p.built, err = p.child.Build(p.part.of(s.rows), folder); err != nil {
		return err
	}
	return filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		p.bytes += info.Size()
		return err
	})
}

// search asks the queries once more.
func (p *peer) search(s *set) error {
	start := time.Now()
	a, err := p.child.Search(p.part.of(s.queries), 10)
	if err != nil {
		return err
	}
	if p.answer != nil {
		for i := range a.Micros {
			a.Micros[i] = min(a.Micros[i], p.answer.Micros[i])
		}
	}
	p.answer, p.took = a, time.Since(start)
	return nil
}

// printTable prints the table of a set.
func (s *set) printTable(list []*peer) {
	fmt.Printf("\n%s, %d rows, %d queries, k = 10\n\n", s.name, len(s.rows), len(s.queries))
	fmt.Println("| | build, s | MB | mean µs | median | p99 | × anndb | right top 10 | MRR@10 |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|")
	ref := newReference(s.rows)
	own := map[part][2]float64{} // mean and median
	for _, p := range list {
		micros := slices.Sorted(slices.Values(p.answer.Micros))
		median, mean := micros[len(micros)/2], 0.0
		for _, t := range micros {
			mean += t / float64(len(micros))
		}
		if p.library == "" {
			own[p.part] = [2]float64{mean, median}
		}
		correct, reciprocal := 0, 0.0
		for i, found := range p.answer.Found {
			if p.part == byWords && right(found, ref.scores(s.queries[i]), 10) {
				correct++
			}
			if s.right != nil {
				is := func(f child.Found) bool { return f.Row == s.right[i] }
				if at := slices.IndexFunc(found, is); at >= 0 {
					reciprocal += 1 / float64(at+1)
				}
			}
		}
		share, mrr := "–", "–"
		if p.part == byWords {
			share = fmt.Sprintf("%.1f %%", 100*float64(correct)/float64(len(micros)))
		}
		if s.right != nil {
			mrr = fmt.Sprintf("%.3f", reciprocal/float64(len(micros)))
		}
		fmt.Printf("| %s | %.1f | %.1f | %.0f | %.0f | %.0f | %.1f, %.1f | %s | %s |\n",
			p.name, p.built.Seconds, float64(p.bytes)/1e6, mean, median, micros[len(micros)*99/100],
			mean/own[p.part][0], median/own[p.part][1], share, mrr)
	}
}
