package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/anndb/anndb/bench/internal/vectors"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/vector"
)

// filteredQueries is the number of queries of a selection, and filteredRecall the recall that
// systems are compared at.
const (
	filteredQueries = 200
	filteredRecall  = 0.95
)

// selection is a filter, and the queries that are asked with it.
type selection struct {
	name string
	pass []bool
	// slots has the queries by slot, truths the distances of their k-th nearest passing rows.
	slots  map[string][]float32
	truths map[string]*truth
}

// selections are filters of four sizes: rows at random, the rows nearest to a row, and those
// farthest from it. Queries of the latter two are those nearest to that row, so that what passes is
// near to them or far from them.
func (l *lab) selections(shares []float64) []selection {
	anchor := l.set.Base[:l.set.Dim]
	near := make([]int, l.set.Rows())
	for i := range near {
		near[i] = i
	}
	distances := make([]float32, len(near))
	for i := range distances {
		distances[i] = vector.L2Squared(anchor, l.row(i))
	}
	slices.SortStableFunc(near, func(i, j int) int { return cmp.Compare(distances[i], distances[j]) })
	r := rand.New(rand.NewPCG(15, 0))
	shuffled := r.Perm(len(near))
	var out []selection
	for _, kind := range []string{"random", "near", "far"} {
		for _, share := range shares {
			n := max(k, int(share*float64(len(near))))
			s := selection{name: fmt.Sprintf("%s %g %%", kind, 100*share), pass: make([]bool, len(near)),
				slots: map[string][]float32{}, truths: map[string]*truth{}}
			rows := shuffled[:n]
			switch kind {
			case "near":
				rows = near[:n]
			case "far":
				rows = near[len(near)-n:]
			}
			for _, row := range rows {
				s.pass[row] = true
			}
			for slot, all := range map[string][]float32{"test": l.set.Test, "valid": l.set.Valid} {
				s.slots[slot] = all[:filteredQueries*l.set.Dim]
				if kind != "random" {
					s.slots[slot] = l.nearest(all, anchor)
				}
				s.truths[slot] = l.passingTruth(s.slots[slot], s.pass)
			}
			out = append(out, s)
		}
	}
	return out
}

func (l *lab) row(i int) []float32 { return l.set.Base[i*l.set.Dim : (i+1)*l.set.Dim] }

// nearest returns the queries nearest to a row.
func (l *lab) nearest(queries, anchor []float32) (out []float32) {
	var all [][]float32
	for q := range slices.Chunk(queries, l.set.Dim) {
		all = append(all, q)
	}
	slices.SortStableFunc(all, func(a, b []float32) int {
		return cmp.Compare(vector.L2Squared(anchor, a), vector.L2Squared(anchor, b))
	})
	for _, q := range all[:filteredQueries] {
		out = append(out, q...)
	}
	return out
}

// passingTruth finds the truth of queries among the rows that pass.
func (l *lab) passingTruth(queries []float32, pass []bool) *truth {
	t := &truth{Kth: make([]float64, len(queries)/l.set.Dim)}
	_ = par.Each(context.Background(), par.Work{N: len(t.Kth)}, func(i int) error {
		t.Kth[i] = kth(l.set, queries[i*l.set.Dim:(i+1)*l.set.Dim], pass)
		return nil
	})
	return t
}

// filteredSystems are those whose searches take filters.
func filteredSystems(s *vectors.Set) []system {
	var out []system
	for _, x := range systems(s) {
		switch x.name {
		case "anndb-target":
			x.settings = []string{fmt.Sprintf("recall=%g", filteredRecall)}
			out = append(out, x)
			x.name, x.settings, x.note = "anndb-scan", []string{"recall=1"}, "exact: all passing rows are compared"
			out = append(out, x)
		case "hnswlib", "hnswlib-u8", "faiss-hnsw", "faiss-ivf":
			out = append(out, x)
		}
	}
	return out
}

// filtered measures searches with filters, selection by selection: each system takes the fastest
// setting that reaches the recall on validation queries with that filter, and then all systems answer
// the test queries in turn. The table is printed and written.
func (l *lab) filtered(ctx context.Context, list []system, c *config) (err error) {
	type peer struct {
		*system
		p *process
	}
	var peers []peer
	defer func() {
		for _, x := range peers {
			err = errors.Join(err, x.p.stop())
		}
	}()
	for i := range list {
		p, err := l.open(ctx, &list[i])
		if err != nil {
			return err
		}
		peers = append(peers, peer{&list[i], p})
	}
	shares := []float64{0.5, 0.1, 0.01, 0.001}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %d rows, dimension %d, k = %d, one thread, µs a query at recall %g (recall on the test queries)\n\n| passing rows |",
		l.set.Name, l.set.Rows(), l.set.Dim, k, filteredRecall)
	for _, x := range peers {
		fmt.Fprintf(&text, " %s |", x.name)
	}
	fmt.Fprintf(&text, "\n|---|%s\n", strings.Repeat("---:|", len(peers)))
	for _, s := range l.selections(shares) {
		files, err := l.writeSelection(&s)
		if err != nil {
			return err
		}
		settings := make([]string, len(peers))
		for i, x := range peers {
			if settings[i], err = l.chooseFiltered(x.p, x.system, &s, files); err != nil {
				return err
			}
		}
		fmt.Fprintf(&text, "| %s |", s.name)
		micros, ids := make([][]float64, len(peers)), make([][]uint32, len(peers))
		for range c.rounds {
			for i, x := range peers {
				if settings[i] == "" {
					continue
				}
				got, err := x.p.run("filtered-test", k, 1, 1, 0, settings[i])
				if err != nil {
					return err
				}
				micros[i], ids[i] = append(micros[i], got.means()...), got.ids
			}
		}
		for i := range peers {
			if settings[i] == "" {
				fmt.Fprint(&text, " – |")
				continue
			}
			at := recall(l.set, s.truths["test"], s.slots["test"], ids[i])
			fmt.Fprintf(&text, " %s (%.3f) |", digits(median(micros[i])), at)
		}
		fmt.Fprintln(&text)
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		c.say("%s", lines[len(lines)-1])
	}
	fmt.Print(text.String())
	return os.WriteFile(filepath.Join(c.out, l.set.Name+"-filtered.md"), []byte(text.String()), 0o644)
}

// writeSelection writes the bits and the queries of a selection, and returns the files by slot and
// type of rows.
func (l *lab) writeSelection(s *selection) (map[string]string, error) {
	bits := make([]byte, (len(s.pass)+7)/8)
	for i, ok := range s.pass {
		if ok {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	files := map[string]string{"bits": filepath.Join(l.dir, "filtered.bits")}
	err := os.WriteFile(files["bits"], bits, 0o644)
	for slot, rows := range s.slots {
		for kind, data := range map[string][]byte{"f32": vectors.Raw(rows), "u8": l.set.Quantised(rows)} {
			path := filepath.Join(l.dir, "filtered-"+slot+"."+kind)
			files[slot+kind] = path
			err = errors.Join(err, os.WriteFile(path, data, 0o644))
		}
	}
	return files, err
}

// chooseFiltered gives a selection to a system and returns the fastest setting with which it reaches
// the recall on validation queries, empty if there is none. anndb is asked for the recall.
func (l *lab) chooseFiltered(p *process, s *system, sel *selection, files map[string]string) (string, error) {
	if _, err := p.ask("filter", files["bits"]); err != nil {
		return "", err
	}
	for slot, rows := range sel.slots {
		n := strconv.Itoa(len(rows) / l.set.Dim)
		if _, err := p.ask("queries", "filtered-"+slot, files[slot+s.rows], n, strconv.Itoa(l.set.Dim), s.rows); err != nil {
			return "", err
		}
	}
	if s.driver == "anndb" {
		return s.settings[0], nil
	}
	// Settings go from fast to exact, so their recall grows.
	var failed error
	at := sort.Search(len(s.settings), func(i int) bool {
		if failed != nil {
			return true
		}
		var got *run
		if got, failed = p.run("filtered-valid", k, 1, 0, 0, s.settings[i]); failed != nil {
			return true
		}
		return recall(l.set, sel.truths["valid"], sel.slots["valid"], got.ids) >= filteredRecall
	})
	if failed != nil || at == len(s.settings) {
		return "", failed
	}
	return s.settings[at], nil
}
