// Package documents stores the documents of frameworks, texts with metadata, as rows of a collection, and
// finds them. The adapters of the frameworks, which are modules of their own, translate types.
package documents

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// Document is a text with metadata.
type Document struct {
	ID      string // the key of the row; when empty, a hash of content and metadata
	Content string
	// Metadata that attributes can hold are attributes, "labels" are labels, and others are in the payload.
	// Names that begin with an underscore are those of frameworks, and are not stored.
	Metadata map[string]any
	Score    float64 // set by Find, higher is better
}

// Store is a collection of texts, of vectors or of both. One without texts keeps documents in payloads.
type Store struct {
	Collection db.Collection
	// Embed returns the vectors of texts; nil for collections without vectors.
	Embed func(ctx context.Context, texts []string) ([][]float32, error)
}

// Batch is the number of documents that are embedded and written at a time.
const Batch = 64

const labels = "labels" // the metadata that are labels

// payload has what of a document neither the text nor the attributes of its row hold.
type payload struct {
	Content  string         `json:"content,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Put writes documents, and replaces those with the same IDs. It returns the IDs of those that are durable.
func (s Store) Put(ctx context.Context, docs []Document) (ids []string, err error) {
	info, err := s.info()
	if err != nil {
		return nil, err
	}
	for batch := range slices.Chunk(docs, Batch) {
		rows := make([]db.Row, len(batch))
		for i := range batch {
			if rows[i], err = rowOf(&batch[i], &info); err != nil {
				return ids, fmt.Errorf("document %q: %w", batch[i].ID, err)
			}
		}
		if info.Dim > 0 && s.Embed != nil {
			if err := s.embed(ctx, batch, rows); err != nil {
				return ids, err
			}
		}
		if _, err := s.Collection.Load(ctx, seq(rows), nil); err != nil {
			return ids, err
		}
		for i := range rows {
			ids = append(ids, string(rows[i].Key))
		}
	}
	return ids, nil
}

func seq(rows []db.Row) iter.Seq2[db.Row, error] {
	return func(yield func(db.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// info describes the collection, which must be one of texts or vectors.
func (s Store) info() (db.CollectionInfo, error) {
	info, err := s.Collection.Info()
	if err == nil && info.Sparse && info.Text == nil {
		err = fmt.Errorf("%w: collection %q has features: documents need texts, vectors or both",
			db.ErrInvalid, info.Name)
	}
	return info, err
}

// embed sets the vectors of the rows of documents.
func (s Store) embed(ctx context.Context, docs []Document, rows []db.Row) error {
	texts := make([]string, len(docs))
	for i := range docs {
		texts[i] = docs[i].Content
	}
	vectors, err := s.Embed(ctx, texts)
	if err == nil && len(vectors) != len(rows) {
		err = fmt.Errorf("the embedder returned %d vectors for %d texts", len(vectors), len(rows))
	}
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].Vector = vectors[i]
	}
	return nil
}

// rowOf returns the row of a document without its vector.
func rowOf(d *Document, info *db.CollectionInfo) (r db.Row, err error) {
	var rest payload
	if r.Text = d.Content; info.Text == nil {
		r.Text, rest.Content = "", d.Content
	}
	r.Attributes, rest.Metadata = map[string]any{}, map[string]any{}
	for name, v := range d.Metadata {
		switch names, isLabels := labelsOf(name, v); {
		case strings.HasPrefix(name, "_"):
		case isLabels:
			r.Labels = names
		case fits(name, v):
			r.Attributes[name] = v
		default:
			rest.Metadata[name] = v
		}
	}
	if rest.Content != "" || len(rest.Metadata) > 0 {
		if r.Payload, err = json.Marshal(rest); err != nil {
			return r, err
		}
	}
	if r.Key = []byte(d.ID); d.ID == "" {
		all, err := json.Marshal([]any{d.Content, d.Metadata})
		if err != nil {
			return r, err
		}
		sum := sha256.Sum256(all)
		r.Key = []byte(hex.EncodeToString(sum[:16]))
	}
	return r, nil
}

func labelsOf(name string, v any) (out []string, ok bool) {
	if out, ok = v.([]string); ok && name == labels {
		return out, true
	}
	list, ok := v.([]any) // from JSON
	for _, one := range list {
		s, isString := one.(string)
		out, ok = append(out, s), ok && isString
	}
	return out, ok && name == labels
}

// fits reports whether an attribute can hold a value.
func fits(name string, v any) bool {
	if name == "" || len(name) > 255 {
		return false
	}
	if _, ok := v.(time.Time); ok {
		return true
	}
	switch x := reflect.ValueOf(v); x.Kind() {
	case reflect.String:
		return x.Len() <= 512 && utf8.ValidString(x.String())
	case reflect.Float32, reflect.Float64:
		return !math.IsNaN(x.Float())
	case reflect.Uint, reflect.Uint64:
		return x.Uint() <= math.MaxInt64
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return true
	}
	return false
}

// Find returns the documents nearest to a question: by text, by vector, or by both if the collection has
// both.
func (s Store) Find(ctx context.Context, question string, o db.SearchOptions) ([]Document, error) {
	info, err := s.info()
	if err != nil {
		return nil, err
	}
	var q db.Query
	if info.Text != nil {
		q.Text = text.Plain(question)
	}
	if info.Dim > 0 && s.Embed != nil {
		asked := make([]db.Row, 1)
		if err := s.embed(ctx, []Document{{Content: question}}, asked); err != nil {
			return nil, err
		}
		q.Vector = asked[0].Vector
	}
	o.Include = db.Text | db.Labels | db.Attributes | db.Payload
	found, err := s.Collection.Search(ctx, q, &o)
	if err != nil {
		return nil, err
	}
	docs := make([]Document, len(found.Hits))
	for i := range found.Hits {
		h := &found.Hits[i]
		docs[i] = documentOf(h, &info)
		if docs[i].Score = -float64(h.Distance); q.Text == "" && info.Metric == vector.Cosine {
			docs[i].Score++
		}
	}
	return docs, nil
}

// documentOf returns the document of a hit.
func documentOf(h *db.Hit, info *db.CollectionInfo) Document {
	d := Document{ID: string(h.Key), Content: h.Text, Metadata: map[string]any{}}
	var rest payload
	decoder := json.NewDecoder(bytes.NewReader(h.Payload))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&rest); err != nil && len(h.Payload) > 0 { // another program's
		rest = payload{Content: string(h.Payload)}
	}
	if info.Text == nil {
		d.Content = rest.Content
	}
	maps.Copy(d.Metadata, rest.Metadata)
	maps.Copy(d.Metadata, h.Attributes)
	if len(h.Labels) > 0 {
		d.Metadata[labels] = h.Labels
	}
	return d
}
