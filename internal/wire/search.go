package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/db/trace"
	"github.com/anndb/anndb/internal/jsonscan"
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

// UnmarshalQuery is Unmarshal of a request that has the query q. Its vector is not read by encoding/json,
// which takes several times as long.
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
	Queries []Query `json:"queries,omitzero"`
	db.SearchOptions
	Include []string `json:"include,omitempty"` // of contents
	After   []Key    `json:"after,omitempty"`   // of the hits of earlier pages
	Stats   bool     `json:"stats,omitempty"`   // asks for Result.Plan and Result.Stats
}

// contents are the names of the parts of a row that a search includes in its hits.
var contents = map[string]db.Content{
	"labels": db.Labels, "payload": db.Payload, "attributes": db.Attributes, "text": db.Text,
}

// NewSearch returns the form of a search, without its queries. Functions of filters have none.
func NewSearch(o *db.SearchOptions) *Search {
	s := &Search{SearchOptions: *o, Stats: true}
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
	own := s.SearchOptions
	o = &own
	for i := range o.Rank.Boosts {
		b := &o.Rank.Boosts[i]
		if text, ok := b.Origin.(string); ok {
			if b.Origin, err = time.Parse(time.RFC3339, text); err != nil {
				return nil, nil, fmt.Errorf("%w: origin: %w", ErrJSON, err)
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
	Hits  []Hit              `json:"hits"`
	Index string             `json:"index"`
	Plan  string             `json:"plan,omitempty"`
	Stats *trace.SearchStats `json:"stats,omitempty"`
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
	Queries []Query `json:"queries,omitzero"`
	db.PredictOptions
	Stats bool `json:"stats,omitempty"` // asks for db.Predictions.Stats
}

// NewPredict returns the form of a prediction, without its queries.
func NewPredict(o *db.PredictOptions) *Predict { return &Predict{PredictOptions: *o, Stats: true} }

// Get returns the queries and the options of the prediction.
func (p *Predict) Get() ([]db.Query, *db.PredictOptions, error) {
	queries, err := asked(&p.Query, p.Queries)
	return queries, &p.PredictOptions, err
}

// PredictionsList has those of several queries.
type PredictionsList Batch[db.Predictions]

// NewPredictions returns the form of predictions; stats keeps how they were made.
func NewPredictions(p *db.Predictions, stats bool) *db.Predictions {
	out := *p
	if out.Labels == nil {
		out.Labels = []db.Prediction{} // a list in JSON as well
	}
	if !stats {
		out.Stats = trace.PredictStats{}
	}
	return &out
}
