package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/internal/wire"
)

// storeSearch is the request of OpenAI's search of a vector store.
type storeSearch struct {
	Query          json.RawMessage `json:"query"` // a string, or several
	Filters        *storeFilter    `json:"filters,omitempty"`
	MaxNumResults  int             `json:"max_num_results,omitempty"` // 1 to 50, 10 when zero
	RankingOptions *struct {
		Ranker         string  `json:"ranker,omitempty"`
		ScoreThreshold float64 `json:"score_threshold,omitempty"`
	} `json:"ranking_options,omitempty"`
	RewriteQuery bool `json:"rewrite_query,omitempty"` // nothing is rewritten
}

// storeFilter is a comparison of an attribute, or a combination of filters.
type storeFilter struct {
	Type    string         `json:"type"`
	Key     string         `json:"key,omitempty"`
	Value   any            `json:"value,omitempty"`
	Filters []*storeFilter `json:"filters,omitempty"`
}

// storeResults is the answer to a search.
type storeResults struct {
	Object      string        `json:"object"`
	SearchQuery []string      `json:"search_query"`
	Data        []storeResult `json:"data"`
	HasMore     bool          `json:"has_more"`
	NextPage    *string       `json:"next_page"`
}

type storeResult struct {
	FileID     string         `json:"file_id"`
	Filename   string         `json:"filename"`
	Score      float64        `json:"score"` // BM25's score s as s/(1+s)
	Attributes map[string]any `json:"attributes"`
	Content    []storeContent `json:"content"`
}

type storeContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// storeFile is a row as a file of a vector store.
type storeFile struct {
	ID            string         `json:"id"`
	Object        string         `json:"object"`
	CreatedAt     int64          `json:"created_at"` // 0: rows have none
	UsageBytes    int            `json:"usage_bytes"`
	VectorStoreID string         `json:"vector_store_id"`
	Status        string         `json:"status"`
	LastError     *string        `json:"last_error"`
	Attributes    map[string]any `json:"attributes"`
}

// storeUpdate is a request to attach a file, or to change its attributes. Text is not OpenAI's: with it a row
// is stored, without it the key has to be that of a row.
type storeUpdate struct {
	FileID     string           `json:"file_id,omitempty"`
	Attributes *wire.Attributes `json:"attributes,omitempty"`
	Text       *string          `json:"text,omitempty"`
	Chunking   json.RawMessage  `json:"chunking_strategy,omitempty"` // texts are stored whole
}

// storeDeleted is the answer to a deletion.
type storeDeleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// openStore finds the collection of texts that a store is: file.collection, or the collection of the only
// file. Of several files whose names fit, the one of the longest name that has the collection is meant.
func (c *call) openStore() error {
	store := c.r.PathValue("store")
	names := slices.SortedFunc(maps.Keys(c.s.files), func(a, b string) int { return len(b) - len(a) })
	var places [][2]string // names of files and collections
	for _, name := range names {
		if coll, ok := strings.CutPrefix(store, name+"."); ok {
			places = append(places, [2]string{name, coll})
		}
		if len(names) == 1 {
			places = append(places, [2]string{name, store})
		}
	}
	for _, place := range places {
		d := c.s.files[place[0]]
		coll := d.Collection(place[1])
		switch info, err := coll.Info(); {
		case errors.Is(err, db.ErrNotFound):
			continue
		case err != nil:
			return err
		case info.Text == nil:
			return fmt.Errorf("%w: collection %q has no texts: use its own search", db.ErrInvalid, coll.Name())
		}
		c.file, c.coll = d, coll
		return nil
	}
	return fmt.Errorf("%w: no vector store %q (names are FILE.COLLECTION)", db.ErrNotFound, store)
}

func searchStore(c *call, in *storeSearch) (any, error) {
	queries, err := in.queries()
	if err != nil {
		return nil, err
	}
	o := &db.SearchOptions{K: cmp.Or(in.MaxNumResults, 10), Include: db.Text | db.Attributes}
	if o.K < 1 || o.K > 50 {
		return nil, fmt.Errorf("%w: max_num_results is %d, want 1 to 50", db.ErrInvalid, o.K)
	}
	if o.Where, err = in.Filters.filter(0); err != nil {
		return nil, err
	}
	least := 0.0
	if in.RankingOptions != nil {
		least = in.RankingOptions.ScoreThreshold
	}
	out := storeResults{Object: "vector_store.search_results.page", SearchQuery: queries, Data: []storeResult{}}
	seen := map[string]int{} // the place of each key in out
	for _, q := range queries {
		found, err := c.coll.Search(c.ctx, db.Query{Text: q}, o)
		if err != nil {
			return nil, err
		}
		for i := range found.Hits {
			hit := newStoreResult(&found.Hits[i])
			at, ok := seen[hit.FileID]
			switch {
			case hit.Score < least:
			case !ok:
				seen[hit.FileID] = len(out.Data)
				out.Data = append(out.Data, hit)
			default:
				out.Data[at].Score = max(out.Data[at].Score, hit.Score)
			}
		}
	}
	slices.SortStableFunc(out.Data, func(a, b storeResult) int { return cmp.Compare(b.Score, a.Score) })
	out.Data = out.Data[:min(len(out.Data), o.K)]
	return out, nil
}

// queries returns the texts of a request.
func (s *storeSearch) queries() ([]string, error) {
	var one string
	if json.Unmarshal(s.Query, &one) == nil {
		return []string{one}, nil
	}
	var list []string
	if json.Unmarshal(s.Query, &list) != nil || len(list) == 0 || len(list) > 32 {
		return nil, fmt.Errorf(`%w: "query" has to be a text, or a list of 1 to 32`, wire.ErrJSON)
	}
	return list, nil
}

func newStoreResult(h *db.Hit) storeResult {
	out := storeResult{
		FileID: fileID(h.Key), Attributes: plain(h.Attributes), Content: []storeContent{{"text", h.Text}},
	}
	if s := -float64(h.Distance); s > 0 {
		out.Score = s / (1 + s)
	}
	out.Filename = out.FileID
	if name, ok := h.Attributes["filename"].(string); ok {
		out.Filename = name
	}
	return out
}

// fileID returns a key as text: one that is none as in an address.
func fileID(key []byte) string {
	if k := wire.NewKey(key); k.Bytes == nil {
		return k.Text
	}
	return wire.PathKey(key)
}

// plain returns attributes without types that JSON has not.
func plain(attributes map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range attributes {
		if t, ok := v.(time.Time); ok {
			v = t.Format(time.RFC3339Nano)
		}
		out[name] = v
	}
	return out
}

// mostNested is how deep filters may be nested.
const mostNested = 16

// filter returns the filter, nil for none.
func (f *storeFilter) filter(depth int) (*filter.Filter, error) {
	if f == nil {
		return nil, nil
	}
	if depth == mostNested {
		return nil, fmt.Errorf("%w: filters are nested deeper than %d", db.ErrInvalid, mostNested)
	}
	switch f.Type {
	case "and", "or":
		var parts []*filter.Filter
		for _, x := range f.Filters {
			part, err := x.filter(depth + 1)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
		if f.Type == "or" {
			return filter.Or(parts...), nil
		}
		return filter.And(parts...), nil
	case "in", "nin":
		values, ok := f.Value.([]any)
		if !ok {
			return nil, fmt.Errorf("%w: filter %s of %.40q: the value is no list", db.ErrInvalid, f.Type, f.Key)
		}
		if f.Type == "nin" {
			return filter.Not(filter.In(f.Key, values...)), nil
		}
		return filter.In(f.Key, values...), nil
	}
	equal := filter.Eq(f.Key, f.Value)
	switch f.Type {
	case "eq":
		return equal, nil
	case "ne":
		return filter.Not(equal), nil
	case "gte":
		return filter.Range(f.Key, f.Value, nil), nil
	case "gt":
		return filter.And(filter.Range(f.Key, f.Value, nil), filter.Not(equal)), nil
	case "lt":
		return filter.Range(f.Key, nil, f.Value), nil
	case "lte":
		return filter.Or(filter.Range(f.Key, nil, f.Value), equal), nil
	}
	return nil, fmt.Errorf("%w: filter type %.20q, want eq, ne, gt, gte, lt, lte, in, nin, and, or",
		db.ErrInvalid, f.Type)
}

// attachFile stores a row, or gives the attributes of a request to one.
func attachFile(c *call, in *storeUpdate) (any, error) { return changeStored(c, in, "") }

func updateStored(c *call, in *storeUpdate) (any, error) {
	return changeStored(c, in, c.r.PathValue("key"))
}

func changeStored(c *call, in *storeUpdate, key string) (any, error) {
	if (key == "") == (in.FileID == "") {
		return nil, fmt.Errorf(`%w: "file_id" is missing, or in the address already`, wire.ErrJSON)
	}
	row := db.Row{Key: []byte(key + in.FileID)}
	if in.Attributes != nil {
		row.Attributes = *in.Attributes
	}
	err := c.file.Update(c.ctx, func(tx *db.Tx) error {
		rows := tx.Collection(c.coll.Name())
		if in.Text != nil {
			has, err := rows.Get(row.Key)
			if errors.Is(err, db.ErrNotFound) {
				put := row
				put.Text = *in.Text
				return rows.Put(put)
			}
			if err == nil && has.Text != *in.Text {
				err = rows.SetText(row.Key, *in.Text)
			}
			if err != nil {
				return err
			}
		}
		if in.Attributes == nil && in.Text != nil {
			return nil
		}
		return rows.SetAttributes(row.Key, row.Attributes)
	})
	if err != nil {
		return nil, err
	}
	return storedFile(c, row.Key)
}

func describeStored(c *call) (any, error) { return storedFile(c, c.key()) }

// storedFile returns the row of a key as a file.
func storedFile(c *call, key []byte) (any, error) {
	row, err := c.coll.Get(key)
	return storeFile{
		ID: fileID(key), Object: "vector_store.file", UsageBytes: len(row.Text), Status: "completed",
		VectorStoreID: c.r.PathValue("store"), Attributes: plain(row.Attributes),
	}, err
}

func deleteStored(c *call) (any, error) {
	err := c.file.Update(c.ctx, func(tx *db.Tx) error {
		return tx.Collection(c.coll.Name()).Delete(c.key())
	})
	return storeDeleted{fileID(c.key()), "vector_store.file.deleted", true}, err
}
