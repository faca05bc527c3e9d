// Package anndb is a retriever and an indexer of Genkit over a collection of anndb: of texts, which are
// searched by BM25, of vectors, or of both, whose scores are combined. Metadata that are strings, numbers,
// bools and times are attributes of rows, the list of strings "labels" are their labels.
package anndb

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/core"
	"github.com/firebase/genkit/go/core/api"
	"github.com/firebase/genkit/go/genkit"

	"github.com/anndb/anndb/adapters/internal/documents"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
)

const provider = "anndb"

// Names of metadata.
const (
	IDKey    = "id"     // the key of the row; a hash of the document if it has none
	ScoreKey = "_score" // of retrieved documents, higher is better; not stored
)

// Config selects the collection of a retriever.
type Config struct {
	Collection      db.Collection
	Embedder        ai.Embedder // for collections with vectors
	EmbedderOptions any
}

// RetrieverOptions are the options of a request (ai.WithConfig), also as a map.
type RetrieverOptions struct {
	K int `json:"k,omitempty"` // the number of documents, 10 when zero
	// Filter restricts the documents, as in price < 20 and label in (boot, bag); the guide of anndb lists
	// the conditions.
	Filter string  `json:"filter,omitempty"`
	Recall float64 `json:"recall,omitempty"` // the target of searches by vector, 0.95 when zero
	Index  string  `json:"index,omitempty"`  // the default one of the collection when empty
}

// Store writes documents into the collection of a retriever.
type Store struct{ documents documents.Store }

// DefineRetriever registers a retriever under the name anndb/name, and returns it with its store.
func DefineRetriever(g *genkit.Genkit, name string, c Config) (*Store, ai.Retriever) {
	s := &Store{documents.Store{Collection: c.Collection}}
	if c.Embedder != nil {
		s.documents.Embed = c.embed
	}
	o := &ai.RetrieverOptions{Label: "anndb " + name, ConfigSchema: core.InferSchemaMap(RetrieverOptions{})}
	return s, genkit.DefineRetriever(g, api.NewName(provider, name), o, s.retrieve)
}

// Retriever returns the retriever that was defined with the name, nil if there is none.
func Retriever(g *genkit.Genkit, name string) ai.Retriever {
	return genkit.LookupRetriever(g, api.NewName(provider, name))
}

// embed returns the vectors of texts.
func (c *Config) embed(ctx context.Context, texts []string) ([][]float32, error) {
	req := &ai.EmbedRequest{Options: c.EmbedderOptions}
	for _, text := range texts {
		req.Input = append(req.Input, ai.DocumentFromText(text, nil))
	}
	res, err := c.Embedder.Embed(ctx, req)
	if err != nil {
		return nil, err
	}
	var vectors [][]float32
	for _, e := range res.Embeddings {
		vectors = append(vectors, e.Embedding)
	}
	return vectors, nil
}

// Index writes documents, and replaces those with the same ID. It returns the IDs of those that are durable.
func (s *Store) Index(ctx context.Context, docs []*ai.Document) ([]string, error) {
	out := make([]documents.Document, len(docs))
	for i, d := range docs {
		text, err := textOf(d)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		out[i] = documents.Document{Content: text, Metadata: maps.Clone(d.Metadata)}
		if id, ok := d.Metadata[IDKey].(string); ok {
			out[i].ID = id
			delete(out[i].Metadata, IDKey)
		}
	}
	return s.documents.Put(ctx, out)
}

// textOf returns the text of a document, which must have no parts of other kinds.
func textOf(d *ai.Document) (string, error) {
	var b strings.Builder
	for _, p := range d.Content {
		if !p.IsText() {
			return "", fmt.Errorf("%w: a part of type %q: only texts are stored and searched",
				db.ErrInvalid, p.ContentType)
		}
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

func (s *Store) retrieve(ctx context.Context, req *ai.RetrieverRequest) (*ai.RetrieverResponse, error) {
	var o RetrieverOptions
	options, err := json.Marshal(req.Options) // RetrieverOptions, or what was JSON; they suit the schema
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(options, &o); err != nil {
		return nil, fmt.Errorf("%w: options of the retriever: %w", db.ErrInvalid, err)
	}
	question, err := textOf(req.Query)
	if err != nil {
		return nil, err
	}
	search := db.SearchOptions{K: o.K, Recall: o.Recall, Index: o.Index}
	if o.Filter != "" {
		if search.Where, err = filter.Parse(o.Filter); err != nil {
			return nil, err
		}
	}
	found, err := s.documents.Find(ctx, question, search)
	if err != nil {
		return nil, err
	}
	res := &ai.RetrieverResponse{Documents: make([]*ai.Document, len(found))}
	for i, d := range found {
		d.Metadata[IDKey], d.Metadata[ScoreKey] = d.ID, d.Score
		res.Documents[i] = ai.DocumentFromText(d.Content, d.Metadata)
	}
	return res, nil
}
