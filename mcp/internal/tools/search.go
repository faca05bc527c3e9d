package tools

import (
	"errors"
	"fmt"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/vector"
)

// question is what searches, predictions and explanations are about.
type question struct {
	where
	Text     string             `json:"text,omitempty"`
	Vector   []float32          `json:"vector,omitempty"`
	Features map[string]float32 `json:"features,omitempty"`
	Like     string             `json:"like,omitempty"`
}

// query returns the question as a query.
func (q *question) query(info *db.CollectionInfo) (db.Query, error) {
	has := q.Text != "" || q.Vector != nil || q.Features != nil
	switch {
	case q.Like != "" && has:
		return db.Query{}, errors.New("like goes without text, vector and features")
	case q.Like != "":
		return db.Query{Key: []byte(q.Like)}, nil
	case !has, q.Text != "" && info.Text == nil, q.Features != nil && !info.Named:
		return db.Query{}, fmt.Errorf("collection %q is searched by: %s", info.Name,
			strings.Join(searchableBy(info), ", "))
	}
	return db.Query{Text: q.Text, Vector: q.Vector, Features: featuresOf(q.Features)}, nil
}

func featuresOf(values map[string]float32) (out []vector.Feature) {
	for name, v := range values {
		out = append(out, vector.Feature{Name: name, Value: v})
	}
	return out
}

// searchableBy describes what queries to a collection have.
func searchableBy(info *db.CollectionInfo) (by []string) {
	if info.Text != nil {
		by = append(by, "text")
	}
	if info.Named && info.Text == nil {
		by = append(by, "features")
	}
	if info.Dim > 0 {
		by = append(by, fmt.Sprintf("vector of %d numbers", info.Dim))
	}
	return append(by, "like, the key of a row")
}

// meaning describes the numbers of hits, and reports whether they are scores.
func meaning(info *db.CollectionInfo, q *db.Query, hits []db.Hit) (text string, scores bool) {
	sparse := info.Sparse && (q.Key == nil && q.Vector == nil || info.Dim == 0)
	switch {
	case len(hits) > 0 && hits[0].Places != nil:
		return "score: text and vector combined, at most 1, higher is better; text_rank and vector_rank are the " +
			"places by each alone", true
	case sparse && info.Text != nil:
		return "score: BM25, higher is better; not comparable between queries", true
	case sparse, info.Metric == vector.Cosine:
		return "distance: 1 - cosine, 0 is the same direction, smaller is better", false
	case info.Metric == vector.InnerProduct:
		return "distance: the negated inner product, smaller is better", false
	}
	return "distance: Euclidean, 0 is equal, smaller is better", false
}

type searchInput struct {
	question
	Filter  string  `json:"filter,omitempty"`
	K       int     `json:"k,omitempty"`
	Recall  float64 `json:"recall,omitempty"`
	MaxText int     `json:"max_text,omitempty"`
}

// hit is a row that a search has found.
type hit struct {
	Score      *float32 `json:"score,omitempty"`
	Distance   *float32 `json:"distance,omitempty"`
	TextRank   int      `json:"text_rank,omitempty"`
	VectorRank int      `json:"vector_rank,omitempty"`
	row
}

type searchOutput struct {
	Hits    []hit    `json:"hits"`
	Meaning string   `json:"meaning"`
	Plan    string   `json:"plan"`
	Notes   []string `json:"notes,omitempty"`
}

func search(c *call, in *searchInput) (out searchOutput, err error) {
	o := db.SearchOptions{Recall: in.Recall, Include: db.Labels | db.Payload | db.Attributes | db.Text}
	if o.K, err = atMost("k", in.K, 10, mostRows); err != nil {
		return out, err
	}
	most, err := atMost("max_text", in.MaxText, usualText, mostText)
	if err != nil {
		return out, err
	}
	if o.Where, err = wire.Where(in.Filter); err != nil {
		return out, err
	}
	q, err := in.query(c.info)
	if err != nil {
		return out, err
	}
	found, err := c.rows.Search(c, q, &o)
	if err != nil {
		return out, err
	}
	show, cut, scores := passage(c.info, in.Text, most), false, false
	out.Meaning, scores = meaning(c.info, &q, found.Hits)
	out.Hits, out.Plan = []hit{}, found.Plan()
	for i := range found.Hits {
		h := newHit(&found.Hits[i], scores, show)
		cut = cut || h.TextLength > 0
		out.Hits = append(out.Hits, h)
	}
	out.Hits, out.Notes, err = bounded(out.Hits)
	out.Notes = append(out.Notes, unknown(found.Stats.Unknown)...)
	if len(found.Hits) == 0 {
		out.Notes = append(out.Notes, "No row is found: try other words, fewer required ones, or a wider filter.")
	}
	if cut {
		out.Notes = append(out.Notes, "Texts with text_length are passages: get shows the whole text of a row.")
	}
	return out, err
}

func newHit(h *db.Hit, scores bool, show func(string) string) hit {
	r := db.Row{Key: h.Key, Labels: h.Labels, Text: h.Text, Payload: h.Payload, Attributes: h.Attributes}
	out := hit{Distance: &h.Distance, row: newRow(&r, show, mostValue)}
	if scores {
		score := 0 - h.Distance
		out.Score, out.Distance = &score, nil
	}
	if h.Places != nil {
		out.TextRank, out.VectorRank = h.Places.TextRank, h.Places.VectorRank
	}
	return out
}

// unknown is a note about words or features that no row has.
func unknown(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	return []string{"No row has: " + strings.Join(names[:min(len(names), mostParts)], ", ")}
}
