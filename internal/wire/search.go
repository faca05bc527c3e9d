package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/internal/jsonscan"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
)

// Query is a db.Query.
type Query struct {
	Key
	Vector   Vector    `json:"vector,omitempty"`
	Features *Features `json:"features,omitempty"`
	Text     string    `json:"text,omitempty"`
}

// NewQuery returns the form of a query.
func NewQuery(q db.Query) Query {
	out := Query{Key: NewKey(q.Key), Vector: q.Vector, Text: q.Text}
	if q.Features != nil || q.Sparse.Index != nil {
		out.Features = &Features{Named: q.Features, Numbered: q.Sparse}
	}
	return out
}

// Get returns the query.
func (q *Query) Get() (db.Query, error) {
	key, err := q.Key.Get()
	out := db.Query{Key: key, Vector: q.Vector, Text: q.Text}
	if q.Features != nil {
		out.Features, out.Sparse = q.Features.Named, q.Features.Numbered
	}
	return out, err
}

// asked returns the queries of a request, which has one or a list of them.
func asked(one *Query, list []Query) ([]db.Query, error) {
	if list == nil {
		list = []Query{*one}
	} else if one.Vector != nil || one.Features != nil || one.Text != "" ||
		one.Key.Text != "" || one.Key.Bytes != nil {
		return nil, fmt.Errorf(`%w: a query, and "queries"`, ErrJSON)
	}
	return All(list, (*Query).Get)
}

// UnmarshalQuery is Unmarshal of a request that has the query q. Its vector is not read by encoding/json, which
// takes several times as long.
func UnmarshalQuery(body []byte, q *Query, into any) error {
	vector, rest, ok := jsonscan.Cut(body, "vector")
	if !ok {
		return Unmarshal(body, into)
	}
	if err := q.Vector.UnmarshalJSON(vector); err != nil {
		return fmt.Errorf("%w: %w", ErrJSON, err)
	}
	return Unmarshal(rest, into)
}

// Search is a request for the rows nearest to a query, or to each of Queries.
type Search struct {
	Query
	Queries []Query       `json:"queries,omitzero"`
	K       int           `json:"k,omitempty"`
	Index   string        `json:"index,omitempty"`
	Recall  float64       `json:"recall,omitempty"`
	Where   string        `json:"where,omitempty"` // as filter.Parse reads it
	Radius  *float64      `json:"radius,omitempty"`
	Include []string      `json:"include,omitempty"` // of contents
	Explain bool          `json:"explain,omitempty"`
	Rank    *rank.Options `json:"rank,omitempty"`  // origins are numbers, or times as text
	After   []Key         `json:"after,omitempty"` // of the hits of earlier pages
	Params  *query.Params `json:"params,omitempty"`
	Stats   bool          `json:"stats,omitempty"` // asks for Result.Plan and Result.Stats
}

// contents are the names of the parts of a row that a search includes in its hits.
var contents = map[string]db.Content{
	"labels": db.Labels, "payload": db.Payload, "attributes": db.Attributes, "text": db.Text,
}

// NewSearch returns the form of a search, without its queries. Functions of filters have none.
func NewSearch(o *db.SearchOptions) *Search {
	s := &Search{
		K: o.K, Index: o.Index, Recall: o.Recall, Radius: o.Radius, Explain: o.Explain, Params: o.Params,
		Rank: &o.Rank, Stats: true,
	}
	if o.Where != nil {
		s.Where = o.Where.String()
	}
	for name, part := range contents {
		if o.Include&part != 0 {
			s.Include = append(s.Include, name)
		}
	}
	for i := range o.After {
		s.After = append(s.After, NewKey(o.After[i].Key))
	}
	return s
}

// Get returns the queries and the options of the search.
func (s *Search) Get() (queries []db.Query, o *db.SearchOptions, err error) {
	if queries, err = asked(&s.Query, s.Queries); err != nil {
		return nil, nil, err
	}
	o = &db.SearchOptions{
		K: s.K, Index: s.Index, Recall: s.Recall, Radius: s.Radius, Explain: s.Explain, Params: s.Params,
	}
	if o.Where, err = Where(s.Where); err != nil {
		return nil, nil, err
	}
	if s.Rank != nil {
		o.Rank = *s.Rank
		for i := range o.Rank.Boosts {
			b := &o.Rank.Boosts[i]
			if text, ok := b.Origin.(string); ok {
				if b.Origin, err = time.Parse(time.RFC3339, text); err != nil {
					return nil, nil, fmt.Errorf("%w: origin: %w", ErrJSON, err)
				}
			}
		}
	}
	for _, name := range s.Include {
		part, ok := contents[name]
		if !ok {
			return nil, nil, fmt.Errorf("%w: include %.40q: want labels, payload, attributes or text", ErrJSON, name)
		}
		o.Include |= part
	}
	for i := range s.After {
		key, err := s.After[i].Get()
		if err != nil {
			return nil, nil, err
		}
		o.After = append(o.After, db.Hit{Key: key})
	}
	return queries, o, nil
}

// Where parses a filter; "" is nil.
func Where(text string) (*filter.Filter, error) {
	if text == "" {
		return nil, nil
	}
	return filter.Parse(text)
}

// Result is a db.Result.
type Result struct {
	Hits  []Hit           `json:"hits"`
	Index string          `json:"index"`
	Plan  string          `json:"plan,omitempty"`
	Stats *db.SearchStats `json:"stats,omitempty"`
}

// Results are the results of a search with several queries.
type Results Batch[Result]

// Batch has the answers to several queries.
type Batch[Form any] struct {
	Results []Form `json:"results"`
}

// NewBatch returns the forms of answers.
func NewBatch[Answer, Form any](list []Answer, form func(*Answer) *Form) Batch[Form] {
	out := Batch[Form]{Results: make([]Form, len(list))}
	for i := range list {
		out.Results[i] = *form(&list[i])
	}
	return out
}

// Hit is a db.Hit.
type Hit struct {
	Key
	Row           uint32          `json:"row"`
	Distance      float32         `json:"distance"`
	Score         float32         `json:"score,omitempty"`
	Places        *rank.Places    `json:"places,omitempty"`
	Labels        []string        `json:"labels,omitempty"`
	Text          string          `json:"text,omitempty"`
	Payload       string          `json:"payload,omitempty"`
	PayloadBase64 []byte          `json:"payload_base64,omitempty"`
	Attributes    Attributes      `json:"attributes,omitempty"`
	Why           *explain.Reason `json:"why,omitempty"`
}

// NewResult returns the form of a result; stats adds how it was found.
func NewResult(r *db.Result, stats bool) *Result {
	out := &Result{Hits: make([]Hit, len(r.Hits)), Index: r.Index}
	if stats {
		out.Plan, out.Stats = r.Plan(), &r.Stats
	}
	for i := range r.Hits {
		h := &r.Hits[i]
		payload := NewKey(h.Payload)
		out.Hits[i] = Hit{
			Key: NewKey(h.Key), Row: h.Row, Distance: h.Distance, Score: h.Score, Places: h.Places,
			Labels: h.Labels, Text: h.Text, Payload: payload.Text, PayloadBase64: payload.Bytes,
			Attributes: h.Attributes, Why: h.Why,
		}
	}
	return out
}

// Get returns the result.
func (r *Result) Get() (out db.Result, err error) {
	out.Index = r.Index
	if r.Stats != nil {
		out.Stats = *r.Stats
	}
	out.Hits, err = All(r.Hits, (*Hit).get)
	return out, err
}

func (h *Hit) get() (db.Hit, error) {
	key, err := h.Key.Get()
	payload, payloadErr := Key{Text: h.Payload, Bytes: h.PayloadBase64}.Get()
	return db.Hit{
		Key: key, Row: h.Row, Distance: h.Distance, Score: h.Score, Places: h.Places,
		Labels: h.Labels, Text: h.Text, Payload: payload, Attributes: h.Attributes, Why: h.Why,
	}, errors.Join(err, payloadErr)
}

// Predict is a request for the labels of a query, or of each of Queries.
type Predict struct {
	Query
	Queries        []Query      `json:"queries,omitzero"`
	Index          string       `json:"index,omitempty"`
	Top            int          `json:"top,omitempty"`
	Set            bool         `json:"set,omitempty"`
	MinProbability float64      `json:"min_probability,omitempty"`
	Recall         float64      `json:"recall,omitempty"`
	Frequent       bool         `json:"frequent,omitempty"`
	Params         *lcif.Params `json:"params,omitempty"`
	Where          string       `json:"where,omitempty"`
	Explain        bool         `json:"explain,omitempty"`
	Stats          bool         `json:"stats,omitempty"` // asks for Predictions.Stats
}

// NewPredict returns the form of a prediction, without its queries.
func NewPredict(o *db.PredictOptions) *Predict {
	p := &Predict{
		Index: o.Index, Top: o.Top, Set: o.Set, MinProbability: o.MinProbability, Recall: o.Recall,
		Frequent: o.Frequent, Params: o.Params, Explain: o.Explain, Stats: true,
	}
	if o.Where != nil {
		p.Where = o.Where.String()
	}
	return p
}

// Get returns the queries and the options of the prediction.
func (p *Predict) Get() (queries []db.Query, o *db.PredictOptions, err error) {
	if queries, err = asked(&p.Query, p.Queries); err != nil {
		return nil, nil, err
	}
	o = &db.PredictOptions{
		Index: p.Index, Top: p.Top, Set: p.Set, MinProbability: p.MinProbability, Recall: p.Recall,
		Frequent: p.Frequent, Params: p.Params, Explain: p.Explain,
	}
	o.Where, err = Where(p.Where)
	return queries, o, err
}

// Predictions is a db.Predictions.
type Predictions struct {
	Labels []db.Prediction  `json:"labels"`
	Why    *explain.Reason  `json:"why,omitempty"`
	Stats  *db.PredictStats `json:"stats,omitempty"`
}

// PredictionsList has those of several queries.
type PredictionsList Batch[Predictions]

// NewPredictions returns the form of predictions; stats adds how they were made.
func NewPredictions(p *db.Predictions, stats bool) *Predictions {
	out := &Predictions{Labels: append([]db.Prediction{}, p.Labels...), Why: p.Why}
	if stats {
		out.Stats = &p.Stats
	}
	return out
}

// Get returns the predictions.
func (p *Predictions) Get() (db.Predictions, error) {
	out := db.Predictions{Why: p.Why}
	if len(p.Labels) > 0 { // otherwise nil, as db returns it
		out.Labels = p.Labels
	}
	if p.Stats != nil {
		out.Stats = *p.Stats
	}
	return out, nil
}
