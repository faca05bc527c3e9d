package query

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// searchExplained searches and explains a row, which need not be an answer.
func searchExplained(s *Searcher, v *View, q []float32, p *Params, row uint32) (*Explanation, error) {
	if _, _, err := s.Search(context.Background(), v, q, p, nil); err != nil {
		return nil, err
	}
	return s.ExplainLast(context.Background(), row)
}

// Explanations agree with the equations: votes by tree, estimate, threshold.
func TestExplainVotes(t *testing.T) {
	const n, depth, trees, labelsK = 256, 5, 4, 5
	m := gaussian(n, 6, 1)
	lab, err := labels.ExactNeighbors(context.Background(), m, nil, labelsK, 1, nil)
	must(t, err)
	v := build(t, m, spec{
		metric: vector.L2, labelsK: labelsK, lists: lab,
		forest: forest.Params{Kind: forest.PCATree, Trees: trees, Depth: depth, Natural: true, Members: true, Seed: 2},
	})
	q := gaussian(1, 6, 5).row(0)
	s := structureOf(v.Forest, m, q)
	eta, share := s.natural(lab, labelsK, trees, 0), s.naive(trees, 1)
	for row := range uint32(n) {
		for _, p := range []Params{{K: 3, Tau: 0.07}, {K: 3, Method: Voting, Votes: 2}} {
			e, err := searchExplained(NewSearcher(), v, q, &p, row)
			must(t, err)
			want, elected := eta[row], eta[row] > p.Tau
			if p.Method == Voting {
				want, elected = share[row], share[row]*trees >= 2
			}
			if math.Abs(e.Estimate-want) > 1e-12 || e.Elected != elected || e.Elected != (e.Estimate > e.Threshold) {
				t.Fatalf("row %d, %v: %+v, want estimate %v, elected %v", row, p.Method, e, want, elected)
			}
			sum := uint32(0)
			for _, vote := range e.Votes {
				if vote.Leaf != s.query[vote.Tree][0] || vote.Votes == 0 {
					t.Fatalf("vote %+v, the query is in leaf %d", vote, s.query[vote.Tree])
				}
				sum += vote.Votes
			}
			if sum != e.Sum || e.Leaves != trees || e.Distance != vector.L2Squared(q, m.row(int(row))) {
				t.Fatalf("%+v", e)
			}
			if e.Elected != (e.Source == "forest") {
				t.Fatalf("elected %v, source %q", e.Elected, e.Source)
			}
		}
	}
}

// Every answer has a source, and the sources are what they say.
func TestExplainSources(t *testing.T) {
	f := small()
	seen := map[string]int{}
	s := NewSearcher()
	for i := range 15 {
		q := f.queries.row(i)
		for _, p := range []Params{full, {K: 10, Trees: 1, Sketch: true, R: 15, Beam: 25}, {K: 10, Method: Flat}, {K: 400, Trees: 1, Tau: 1}} {
			for _, n := range search(t, f.v, q, p)[:10] {
				e, err := searchExplained(s, f.v, q, &p, n.ID)
				must(t, err)
				seen[e.Source]++
				if e.Row != n.ID || e.Distance != n.Distance || (e.From != nil) != (e.Source == "hop") {
					t.Fatalf("%+v is no explanation of %v", e, n)
				}
				switch e.Source {
				case "forest":
					if !e.Elected {
						t.Fatalf("%+v", e)
					}
				case "hop":
					nv := f.v.Neighbors
					if !slices.Contains(nv.list(*e.From, nv.K), n.ID) || e.Hop < 1 {
						t.Fatalf("%+v: not in that list", e)
					}
				case "fresh":
					if int(n.ID) < f.v.N {
						t.Fatalf("%+v", e)
					}
				case "scan":
					if p.Method != Flat && p.K != 400 {
						t.Fatalf("%+v", e)
					}
				}
				if p.Sketch && int(n.ID) < f.v.N {
					if e.Sketch == nil || math.Abs(float64(*e.Sketch-e.Distance)) > 0.1*float64(e.Distance)+60 {
						t.Fatalf("sketch estimate %v of %v", *e.Sketch, e.Distance)
					}
				}
			}
		}
	}
	for _, source := range []string{"forest", "hop", "fresh", "scan"} {
		if seen[source] == 0 {
			t.Errorf("no answer came from %q: %v", source, seen)
		}
	}
}

func TestExplainJSONAndErrors(t *testing.T) {
	f := small()
	q := f.queries.row(0)
	s := NewSearcher()
	found := search(t, f.v, q, full)
	e, err := searchExplained(s, f.v, q, &full, found[0].ID)
	must(t, err)
	data, err := json.Marshal(e)
	if err != nil || !strings.Contains(string(data), `"votes":[{"tree":`) || !strings.Contains(string(data), `"sketch":`) {
		t.Fatalf("%s, %v", data, err)
	}
	if _, err := searchExplained(s, f.v, q, &full, uint32(f.v.Rows.N)); !errors.Is(err, ErrParams) {
		t.Errorf("row that does not exist: %v", err)
	}
	if _, err := searchExplained(s, f.v, q[:4], &full, 0); !errors.Is(err, ErrDimension) {
		t.Errorf("query of another dimension: %v", err)
	}
	far := uint32(0)
	for ; slices.Contains(idsOf(search(t, f.v, q, Params{K: 1900, Method: Lookup, NoWiden: true})), far); far++ {
	}
	if e, err = searchExplained(s, f.v, q, &Params{K: 3, Method: Lookup}, far); err != nil || e.Source != "" || e.Elected {
		t.Errorf("row that was never scored: %+v, %v", e, err)
	}
	if s.watch != nil {
		t.Error("the Searcher still watches")
	}
}
