package wire

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/db/trace"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// Files lists the files of a server.
type Files struct {
	Files []string `json:"files"`
}

// Schema is a db.Schema.
type Schema struct {
	Sparse    bool              `json:"sparse,omitempty"`
	Named     bool              `json:"named,omitempty"`
	Dim       int               `json:"dim,omitempty"`
	Metric    string            `json:"metric,omitempty"` // l2, cosine or ip
	Float32   bool              `json:"float32,omitempty"`
	Text      *TextSchema       `json:"text,omitempty"`
	Weight    float64           `json:"weight,omitempty"`
	Numbering string            `json:"numbering,omitempty"`
	Meta      map[string]string `json:"meta,omitempty"`
}

// TextSchema is a text.Schema.
type TextSchema struct {
	Analyzer string  `json:"analyzer,omitempty"`
	K1       float64 `json:"k1,omitempty"`
	B        float64 `json:"b,omitempty"`
	Pairs    int     `json:"pairs,omitempty"`
}

// NewSchema returns the form of a schema.
func NewSchema(s *db.Schema) Schema {
	out := Schema{
		Sparse: s.Sparse, Named: s.Named, Dim: s.Dim, Float32: s.Float32, Text: (*TextSchema)(s.Text),
		Weight: s.Weight, Numbering: s.Numbering, Meta: s.Meta,
	}
	if s.Metric != 0 {
		out.Metric = s.Metric.String()
	}
	return out
}

// Get returns the schema.
func (s *Schema) Get() (db.Schema, error) {
	out := db.Schema{
		Sparse: s.Sparse, Named: s.Named, Dim: s.Dim, Float32: s.Float32, Text: (*text.Schema)(s.Text),
		Weight: s.Weight, Numbering: s.Numbering, Meta: s.Meta,
	}
	var err error
	if s.Metric != "" {
		if out.Metric, err = vector.ParseMetric(s.Metric); err != nil {
			err = fmt.Errorf("%w: %w", db.ErrInvalid, err)
		}
	}
	return out, err
}

// NewCollection is a request for a collection.
type NewCollection struct {
	Name string `json:"name"`
	Schema
}

// CollectionChange is a request for another name of a collection, or another schema.
type CollectionChange struct {
	Name   string  `json:"name,omitempty"`
	Schema *Schema `json:"schema,omitempty"`
}

// Collection is a db.CollectionInfo.
type Collection struct {
	NewCollection
	Live       int            `json:"rows"`
	Rows       int            `json:"row_numbers"`
	Sealed     int            `json:"sealed"`
	Features   int            `json:"features,omitempty"`
	Indexes    []string       `json:"indexes,omitempty"`
	Attributes []string       `json:"attributes,omitempty"`
	Expires    bool           `json:"expires,omitempty"`
	Labels     map[string]int `json:"labels,omitempty"` // the rows of each; in answers about one collection
}

// NewCollectionInfo returns the form of the description of a collection.
func NewCollectionInfo(i *db.CollectionInfo) Collection {
	return Collection{
		NewCollection: NewCollection{i.Name, NewSchema(&i.Schema)},
		Live:          i.Live, Rows: i.Rows, Sealed: i.Sealed, Features: i.Features,
		Indexes: i.Indexes, Attributes: i.Attributes, Expires: i.Expires,
	}
}

// Get returns the description.
func (c *Collection) Get() (db.CollectionInfo, error) {
	schema, err := c.Schema.Get()
	return db.CollectionInfo{
		Name: c.Name, Schema: schema, Live: c.Live, Rows: c.Rows, Sealed: c.Sealed, Features: c.Features,
		Indexes: c.Indexes, Attributes: c.Attributes, Expires: c.Expires,
	}, err
}

// Collections lists collections.
type Collections struct {
	Collections []Collection `json:"collections"`
}

// Build is a request for an index. Options are those of its kind in package index, without it those that the
// collection decides.
type Build struct {
	Kind    string          `json:"kind,omitempty"`
	Options json.RawMessage `json:"options,omitempty"`
}

// Get returns the options, nil if the collection decides.
func (b *Build) Get() (index.Options, error) {
	if b.Kind == "" && b.Options == nil {
		return nil, nil
	}
	return options(b.Kind, b.Options)
}

// options returns the options of a kind of index.
func options(kind string, raw json.RawMessage) (index.Options, error) {
	o := index.New(kind)
	if raw != nil {
		if err := Unmarshal(raw, o); err != nil {
			return nil, err
		}
	}
	switch o := o.(type) { // the kind says it
	case *index.Forest:
		o.Learner = kind
	case *index.Trees:
		o.Kind = kind
	}
	return o, o.Check(-1)
}

// Index is an index.Info.
type Index struct {
	IndexRecord
	Collection string          `json:"collection,omitempty"`
	Default    bool            `json:"default,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Predicts   bool            `json:"predicts,omitempty"` // labels, and finds no rows
	Given      json.RawMessage `json:"given,omitempty"`
	Options    json.RawMessage `json:"options,omitempty"`
	Fresh      int             `json:"fresh"`
	Relabelled int             `json:"relabelled"`
	Segments   int             `json:"segments"`
	Error      string          `json:"error,omitempty"`
}

// IndexChange is a request to make an index the default one.
type IndexChange struct {
	Default bool `json:"default"`
}

// IndexRecord is an index.Record.
type IndexRecord struct {
	Name           string                `json:"name"`
	Rows           int                   `json:"rows"`
	Created        time.Time             `json:"created"`
	Maintained     time.Time             `json:"maintained,omitzero"`
	BuildSeconds   map[string]float64    `json:"build_seconds,omitempty"`
	BuildMemory    int64                 `json:"build_memory,omitempty"`
	Bytes          map[string]int64      `json:"bytes,omitempty"`
	TrainingPoints int                   `json:"training_points"`
	Curve          *query.Curve          `json:"curve,omitempty"`
	LabelCurve     *lcif.Curve           `json:"label_curve,omitempty"`
	TreeTrials     []budget.Trial        `json:"tree_trials,omitempty"`
	AutoTrials     []index.AutoTrial     `json:"auto_trials,omitempty"`
	Unfinished     bool                  `json:"unfinished,omitempty"`
	Tree           *budget.Stats         `json:"tree,omitempty"`
	Calibration    *labels.Calibration   `json:"calibration,omitempty"`
	Neighbors      *index.NeighborReport `json:"neighbors,omitempty"`
	Reached        float64               `json:"reached,omitempty"`
}

// NewIndex returns the form of the description of an index.
func NewIndex(i *index.Info) (out Index, err error) {
	out = Index{
		IndexRecord: IndexRecord(i.Record), Collection: i.Collection, Default: i.Default, Kind: i.Kind,
		Predicts: index.Predicts(i.Kind), Fresh: i.Fresh, Relabelled: i.Relabelled, Segments: i.Segments,
		Error: i.Error,
	}
	if i.Given == nil { // one that cannot be described
		return out, nil
	}
	if out.Given, err = json.Marshal(i.Given); err == nil {
		out.Options, err = json.Marshal(i.Options)
	}
	return out, err
}

// Get returns the description.
func (i *Index) Get() (out index.Info, err error) {
	out = index.Info{
		Record: index.Record(i.IndexRecord), Collection: i.Collection, Default: i.Default, Kind: i.Kind,
		Fresh: i.Fresh, Relabelled: i.Relabelled, Segments: i.Segments, Error: i.Error,
	}
	for raw, to := range map[*json.RawMessage]*index.Options{&i.Given: &out.Given, &i.Options: &out.Options} {
		if *raw == nil {
			continue
		}
		*to = index.New(i.Kind)
		if err := Unmarshal(*raw, *to); err != nil {
			return out, err
		}
	}
	return out, nil
}

// Indexes lists indexes.
type Indexes struct {
	Indexes []Index `json:"indexes"`
}

// NewIndexes returns the form of descriptions.
func NewIndexes(list []index.Info) (out Indexes, err error) {
	out.Indexes, err = All(list, NewIndex)
	return out, err
}

// Stats is a db.Stats.
type Stats struct {
	FileBytes      int64             `json:"file_bytes"`
	FreeBytes      int64             `json:"free_bytes"`
	LiveBytes      int64             `json:"live_bytes"`
	PageSize       int64             `json:"page_size"`
	MapReserve     int64             `json:"map_reserve"`
	Generation     uint64            `json:"generation"`
	Totals         trace.Totals      `json:"totals"`
	Snapshots      int               `json:"snapshots"`
	OldestSnapshot time.Duration     `json:"oldest_snapshot_ns"`
	Maintenance    maintenance.Stats `json:"maintenance"`
	Running        []Running         `json:"running,omitempty"`
	Collections
	Indexes
}

// Running is the progress of a long call of the server, as db.Run reports it.
type Running struct {
	Call    string  `json:"call"` // its method and path
	Stage   string  `json:"stage"`
	Done    int     `json:"done"`
	Total   int     `json:"total"` // 0 if unknown
	Seconds float64 `json:"seconds"`
}

// NewStats returns the form of the description of a file.
func NewStats(s *db.Stats) (out Stats, err error) {
	out = Stats{
		FileBytes: s.FileBytes, FreeBytes: s.FreeBytes, LiveBytes: s.LiveBytes, PageSize: s.PageSize,
		MapReserve: s.MapReserve, Generation: s.Generation, Totals: s.Totals, Snapshots: s.Snapshots,
		OldestSnapshot: s.OldestSnapshot, Maintenance: s.Maintenance, Collections: NewCollections(s.Collections),
	}
	out.Indexes, err = NewIndexes(s.Indexes)
	return out, err
}

// NewCollections returns the form of descriptions.
func NewCollections(list []db.CollectionInfo) Collections {
	out := Collections{Collections: make([]Collection, len(list))}
	for i := range list {
		out.Collections[i] = NewCollectionInfo(&list[i])
	}
	return out
}

// Get returns the description.
func (s *Stats) Get() (out db.Stats, err error) {
	out = db.Stats{
		FileBytes: s.FileBytes, FreeBytes: s.FreeBytes, LiveBytes: s.LiveBytes, PageSize: s.PageSize,
		MapReserve: s.MapReserve, Generation: s.Generation, Totals: s.Totals, Snapshots: s.Snapshots,
		OldestSnapshot: s.OldestSnapshot, Maintenance: s.Maintenance,
	}
	if out.Collections, err = All(s.Collections.Collections, (*Collection).Get); err == nil {
		out.Indexes, err = All(s.Indexes.Indexes, (*Index).Get)
	}
	return out, err
}

// Count is a request for the number of rows that a filter selects.
type Count struct {
	Where string `json:"where,omitempty"`
}

// Counted is the answer to Count.
type Counted struct {
	Rows int `json:"rows"`
}

// Loaded is the answer to an import.
type Loaded struct {
	Rows int `json:"rows"`
}

// Maintain is a request to maintain indexes, see db.DB.Maintain.
type Maintain struct {
	Share float64 `json:"share,omitempty"`
}

// Compact is a request to rewrite a file, see db.DB.Compact.
type Compact struct {
	Reorder bool `json:"reorder,omitempty"`
}

// Maintained has the steps of maintenance.
type Maintained struct {
	Steps []maintenance.Step `json:"steps"`
}

// Checked is the answer to a check: every problem of a file.
type Checked struct {
	OK       bool     `json:"ok"`
	Problems []Damage `json:"problems"`
}

// Damage is a db.CorruptError.
type Damage struct {
	Collection string `json:"collection,omitempty"`
	Object     uint64 `json:"object,omitempty"`
	Section    string `json:"section,omitempty"`
	Chunk      uint32 `json:"chunk,omitempty"`
	Offset     int64  `json:"offset"` // -1 if unknown
	Error      string `json:"error"`
}
