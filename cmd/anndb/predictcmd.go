package main

import (
	"fmt"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/table"
	"github.com/anndb/anndb/db"
)

// predictCmd predicts labels.
type predictCmd struct {
	inFile
	Collection string `arg:"" help:"Collection."`
	askFlags
	Vector string `help:"The query itself, to a dense collection: numbers with commas between." placeholder:"1,2,3" xor:"query" required:""`

	Index    string `help:"Label model to ask; the only one if not given."`
	Top      int    `short:"k" help:"The best so many labels instead of the set that the model's thresholds make." default:"0"`
	Explain  bool   `help:"Say which rows and features carried each label, or by which decisions a tree came to its answer."`
	Strategy string `help:"How a label model of a sparse collection searches for neighbours: auto, hash-taat, dense-taat, partitioned, compact or union. All find the same." default:"auto" placeholder:"STRATEGY"`
	Evidence int    `help:"Rows and features to show of an explanation, or of each decision, the largest so many; 0 for all." default:"5"`
	fileFlags
	sparseFlags
}

// explainCmd is predictCmd with explanations.
type explainCmd struct {
	predictCmd
}

// Run executes the command.
func (c *explainCmd) Run(a *app) error {
	c.Explain = true
	return c.predictCmd.Run(a)
}

// Run executes the command.
func (c *predictCmd) Run(a *app) error {
	if c.Top < 0 || c.Evidence < 0 {
		return usagef("--top and --evidence must not be negative")
	}
	strategy, err := parseStrategy(c.Strategy)
	if err != nil {
		return err
	}
	return c.collection(a, c.Collection, func(s *db.Snapshot, info db.CollectionInfo) error {
		q, err := c.queries(a, s, info)
		if err != nil {
			return err
		}
		if err := noteUnknown(a, s, info, q.queries); err != nil {
			return err
		}
		tree, err := c.byTree(s)
		if err != nil {
			return err
		}
		start := time.Now()
		found, err := predictAll(a, s, c.Collection, q.queries, &db.PredictOptions{Index: c.Index, Top: c.Top, Strategy: strategy, Explain: c.Explain && !tree}, a.workers)
		if err != nil {
			return err
		}
		took := time.Since(start)
		var t *table.Table
		switch {
		case c.Explain && tree:
			t, err = c.explainTrees(a, s, q, found)
		case c.Explain && a.format != table.JSON:
			t = c.evidence(q.keys, found, a.format != table.CSV)
		default:
			t = c.plain(q.keys, found)
		}
		if err != nil {
			return err
		}
		bare := 0
		for _, p := range found {
			if len(p) == 0 {
				bare++
			}
		}
		if err := a.table(t); err != nil {
			return err
		}
		a.title("\nqueries: %d, %.1f µs each, a cold file and explanations included; %d without a label", len(found), took.Seconds()*1e6/float64(len(found)), bare)
		return nil
	})
}

// queries are what to predict labels for.
func (c *predictCmd) queries(a *app, s *db.Snapshot, info db.CollectionInfo) (*labelQueries, error) {
	if c.Vector == "" {
		return c.read(a, s, info, c.fileFlags, c.sparseFlags)
	}
	if info.Sparse {
		return nil, usagef("--vector is for dense collections; %q is sparse: give --features", info.Name)
	}
	v, err := parseVector(c.Vector)
	if err != nil {
		return nil, err
	}
	return &labelQueries{keys: []string{"vector"}, queries: []db.SparseQuery{{Vector: v}}, labels: [][]string{nil}}, nil
}

// byTree says whether a tree is asked.
func (c *predictCmd) byTree(s *db.Snapshot) (bool, error) {
	list, err := s.Indexes(c.Collection)
	if err != nil {
		return false, err
	}
	for _, i := range list {
		if predicts(i) && (c.Index == "" || c.Index == i.Name) { // several are refused by Predict
			return isTree(string(i.Options.Kind)), nil
		}
	}
	return false, nil
}

// predictAll predicts many queries in slices, so that progress shows and an
// interrupt is seen.
func predictAll(a *app, s *db.Snapshot, coll string, queries []db.SparseQuery, o *db.PredictOptions, workers int) ([][]db.Prediction, error) {
	const slice = 256
	out := make([][]db.Prediction, 0, len(queries))
	for lo := 0; lo < len(queries); lo += slice {
		hi := min(lo+slice, len(queries))
		found, err := s.PredictBatch(a.ctx, coll, queries[lo:hi], o, workers)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
		a.progress.update("predict", hi, len(queries))
	}
	a.progress.end()
	return out, nil
}

// plain has one row a label, with all that is known of it as one JSON value.
func (c *predictCmd) plain(keys []string, found [][]db.Prediction) *table.Table {
	columns := []string{"query", "rank", "label", "score:4"}
	if c.Explain {
		columns = append(columns, "explanation")
	}
	t := table.New(columns...)
	for i, predictions := range found {
		for rank, p := range predictions {
			values := []any{keys[i], rank + 1, p.Label, p.Score}
			if c.Explain {
				values = append(values, c.value(p.Explanation))
			}
			t.Add(values...)
		}
	}
	return t
}

// explained is an explanation as JSON has it.
type explained struct {
	FromNeighbors float64             `json:"from_neighbors"`
	FromFeatures  float64             `json:"from_features"`
	FromFrequency float64             `json:"from_frequency"`
	Neighbors     []explainedNeighbor `json:"neighbors"`
	Features      []explainedFeature  `json:"features"`
}

type explainedNeighbor struct {
	Key        string  `json:"key"`
	Row        uint32  `json:"row"`
	Similarity float64 `json:"similarity"`
	Share      float64 `json:"share"`
	Indirect   float64 `json:"indirect,omitempty"`
}

type explainedFeature struct {
	Feature string  `json:"feature"`
	Share   float64 `json:"share"`
}

func (c *predictCmd) value(e *db.PredictionExplanation) explained {
	out := explained{e.Instance, e.Feature, e.Prior, []explainedNeighbor{}, []explainedFeature{}}
	for _, n := range e.Neighbors[:c.shown(len(e.Neighbors))] {
		out.Neighbors = append(out.Neighbors, explainedNeighbor{string(n.Key), n.Row, n.Similarity, n.Share, n.Indirect})
	}
	for _, f := range e.Features[:c.shown(len(e.Features))] {
		out.Features = append(out.Features, explainedFeature{f.Feature, f.Share})
	}
	return out
}

// shown is how many of n pieces of evidence are shown.
func (c *predictCmd) shown(n int) int {
	if c.Evidence == 0 {
		return n
	}
	return min(n, c.Evidence)
}

// evidence has one row for each label and one for each row or feature that
// carried it. For people query and label stand there once.
func (c *predictCmd) evidence(keys []string, found [][]db.Prediction, people bool) *table.Table {
	t := table.New("query", "label", "score:4", "carried by", "what", "similarity:3", "share:4")
	for i, predictions := range found {
		for j, p := range predictions {
			e := p.Explanation
			query, label := any(keys[i]), any(p.Label)
			if people && j > 0 {
				query = nil
			}
			t.Add(query, label, p.Score)
			if people {
				query, label = nil, nil
			}
			part := func(kind string, total float64, n int, what func(i int) (name string, similarity any, share float64)) {
				if n == 0 {
					return
				}
				t.Add(query, label, nil, kind+"s", fmt.Sprintf("%d in all", n), nil, total)
				for k := range c.shown(n) {
					name, similarity, share := what(k)
					t.Add(query, label, nil, kind, name, similarity, share)
				}
			}
			if e.Prior > 0 {
				t.Add(query, label, nil, "frequency", "share of the rows with the label", nil, e.Prior)
			}
			part("row", e.Instance, len(e.Neighbors), func(k int) (string, any, float64) {
				n := e.Neighbors[k]
				if n.Indirect > 0 {
					return fmt.Sprintf("%s, %.4f by its own nearest rows", n.Key, n.Indirect), n.Similarity, n.Share
				}
				return string(n.Key), n.Similarity, n.Share
			})
			part("feature", e.Feature, len(e.Features), func(k int) (string, any, float64) {
				f := e.Features[k]
				return f.Feature, nil, f.Share
			})
		}
	}
	return t
}
