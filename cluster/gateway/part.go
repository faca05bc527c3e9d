package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/group"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
)

// PartPattern is the route of a node that PartHandler answers.
const PartPattern = "POST /cluster/part/{shard}/{collection}/{question}"

// partQuestion is what a group asks of a part.
type partQuestion struct {
	Search  wire.Search  `json:"search,omitzero"`
	Predict wire.Predict `json:"predict,omitzero"`
	Ask     group.Ask    `json:"ask,omitzero"`
	Keys    []wire.Key   `json:"keys,omitempty"`
	Where   string       `json:"where,omitempty"`
	// Index is that of a model, Version that which the gateway has: of an equal model the answer has no more.
	Index    string          `json:"index,omitempty"`
	Version  uint64          `json:"version,omitempty"`
	Features []group.Feature `json:"features,omitempty"`
}

// partRow is a row as a line of a jsonl file, with its number.
type partRow struct {
	Row  uint32          `json:"row"`
	Line json.RawMessage `json:"line"`
}

// partHits is a group.Answer.
type partHits struct {
	Result *wire.Result  `json:"result"`
	Found  []group.Found `json:"found,omitempty"`
}

// PartHandler answers what gateways ask of the shards of a node. find returns the file of a shard.
func PartHandler(find server.Find) server.Reply {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		d, err := find(w, r, r.PathValue("shard"))
		if err != nil {
			return nil, err
		}
		return answerPart(r, d.Collection(r.PathValue("collection")))
	}
}

// answerPart answers a question about a collection.
func answerPart(r *http.Request, c db.Collection) (any, error) {
	var in partQuestion
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err == nil {
		err = wire.Unmarshal(body, &in)
	}
	if err != nil {
		return nil, err
	}
	p, ctx := group.Of(c), r.Context()
	switch question := r.PathValue("question"); question {
	case "info":
		return p.Info(ctx)
	case "terms", "search":
		queries, o, err := in.Search.Get()
		if err != nil {
			return nil, err
		}
		if question == "terms" {
			return p.Terms(ctx, queries[0], &in.Ask)
		}
		found, err := p.Search(ctx, queries[0], o, &in.Ask)
		return partHits{wire.NewResult(&found.Result, true), found.Found}, err
	case "model":
		m, err := p.Model(ctx, in.Index)
		if m.Version == in.Version {
			m = group.Model{Version: m.Version}
		}
		return m, err
	case "sums":
		sums, err := p.Sums(ctx, in.Index, in.Version, in.Features)
		if errors.Is(err, db.ErrNotFound) {
			err = fmt.Errorf("%w: %w", wire.ErrUnavailable, err) // another replica may have the version
		}
		return sums, err
	case "evidence", "predict":
		queries, o, err := in.Predict.Get()
		switch {
		case err != nil:
			return nil, err
		case question == "predict":
			return p.Predict(ctx, queries[0], o, &in.Ask)
		case o.Params == nil:
			return nil, fmt.Errorf(`%w: want "predict" with "params"`, wire.ErrJSON)
		}
		return p.Evidence(ctx, queries[0], o, &in.Ask)
	case "rows":
		return partRows(ctx, c, in.Keys)
	case "count":
		where, err := wire.Where(in.Where)
		if err != nil {
			return nil, err
		}
		return p.Count(ctx, where)
	case "labels":
		return p.Labels(ctx)
	default:
		return nil, fmt.Errorf("%w: question %.40q of a part", wire.ErrRoute, question)
	}
}

// partRows returns the rows that have the keys.
func partRows(ctx context.Context, c db.Collection, keys []wire.Key) ([]partRow, error) {
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	schema := rows.Schema(&info)
	schema.Base64 = true
	list, err := wire.All(keys, func(k *wire.Key) ([]byte, error) { return k.Get() })
	if err != nil {
		return nil, err
	}
	found, err := group.Of(c).Rows(ctx, list)
	if err != nil {
		return nil, err
	}
	return wire.All(found, func(r *db.Row) (partRow, error) {
		line, err := rows.AppendJSON(nil, r, schema)
		return partRow{r.Row, line}, err
	})
}

// part is the collection of a request in a shard, as a part of a group.
type part struct {
	c     *call
	s     *shardlog.Shard
	name  string
	fresh bool // the description of the collection has to be the latest
}

func (p part) String() string { return "shard " + p.s.ID }

// ask sends a question to a replica.
func ask[T any](p part, what string, in *partQuestion) (out T, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("%w: %w", db.ErrInvalid, err) // a number that JSON does not have
	}
	path := "/cluster/part/" + wire.PathKey([]byte(p.s.ID)) + "/" + wire.PathKey([]byte(p.name)) + "/" + what
	out, err = fetch[T](p.c, p.s, &question{kind: what, method: http.MethodPost, path: path, body: body})
	if errors.Is(err, wire.ErrUnavailable) {
		err = missingShard{err, p.s.ID}
	}
	return out, err
}

// infoTime is how long what a part has said of itself is used.
const infoTime = time.Second

// known is what a part has said of itself.
type known[T any] struct {
	value T
	until time.Time
}

// recall returns what a part has said of itself, by a name. It asks for it, with what it was before, if that
// is not known or too old.
func recall[T any](p part, name string, fresh bool, ask func(had T) (T, error)) (T, error) {
	x, _ := p.c.g.infos.Load(p.key(name))
	had, _ := x.(known[T])
	if !fresh && time.Now().Before(had.until) {
		return had.value, nil
	}
	value, err := ask(had.value)
	if err != nil {
		p.c.g.infos.Delete(p.key(name))
		return value, err
	}
	p.c.g.infos.Store(p.key(name), known[T]{value, time.Now().Add(infoTime)})
	return value, nil
}

// key is that of what the part has said of a model, or of its rows, whose name is empty.
func (p part) key(model string) string { return p.s.ID + "/" + p.name + "/" + model }

func (p part) Model(_ context.Context, index string) (group.Model, error) {
	return recall(p, index, false, func(had group.Model) (group.Model, error) {
		m, err := ask[group.Model](p, "model", &partQuestion{Index: index, Version: had.Version})
		if m.Version == had.Version {
			m = had
		}
		return m, err
	})
}

func (p part) Sums(
	_ context.Context, index string, version uint64, features []group.Feature,
) ([]group.Sums, error) {
	out, err := ask[[]group.Sums](p, "sums", &partQuestion{Index: index, Version: version, Features: features})
	if err != nil {
		p.c.g.infos.Delete(p.key(index)) // which may have changed
	}
	return out, err
}

func (p part) Evidence(
	_ context.Context, q db.Query, o *db.PredictOptions, about *group.Ask,
) (group.Evidence, error) {
	return askLabels[group.Evidence](p, "evidence", q, o, about)
}

func (p part) Predict(
	_ context.Context, q db.Query, o *db.PredictOptions, about *group.Ask,
) (db.Predictions, error) {
	return askLabels[db.Predictions](p, "predict", q, o, about)
}

// askLabels asks about the labels of a query.
func askLabels[T any](p part, what string, q db.Query, o *db.PredictOptions, about *group.Ask) (T, error) {
	in := wire.NewPredict(o)
	in.Query = wire.NewQuery(q)
	return ask[T](p, what, &partQuestion{Predict: *in, Ask: *about})
}

func (p part) Info(context.Context) (db.CollectionInfo, error) {
	return recall(p, "", p.fresh, func(db.CollectionInfo) (db.CollectionInfo, error) {
		return ask[db.CollectionInfo](p, "info", &partQuestion{})
	})
}

func (p part) Terms(_ context.Context, q db.Query, about *group.Ask) (group.Terms, error) {
	in := &partQuestion{Search: wire.Search{Query: wire.NewQuery(q)}, Ask: *about}
	return ask[group.Terms](p, "terms", in)
}

func (p part) Search(
	_ context.Context, q db.Query, o *db.SearchOptions, about *group.Ask,
) (a group.Answer, err error) {
	in := wire.NewSearch(o)
	in.Query, in.Include = wire.NewQuery(q), nil
	out, err := ask[partHits](p, "search", &partQuestion{Search: *in, Ask: *about})
	if err != nil {
		return a, err
	}
	if out.Result == nil {
		return a, fmt.Errorf("shard %s: an answer without a result", p.s.ID)
	}
	a.Result, err = out.Result.Get()
	a.Found, a.Full = out.Found, o.Include == 0
	return a, err
}

func (p part) Rows(_ context.Context, keys [][]byte) (list []db.Row, err error) {
	in := &partQuestion{}
	for _, key := range keys {
		in.Keys = append(in.Keys, wire.NewKey(key))
	}
	out, err := ask[[]partRow](p, "rows", in)
	if err != nil {
		return nil, err
	}
	return wire.All(out, func(r *partRow) (db.Row, error) {
		row, err := wire.ParseRow(r.Line, nil)
		row.Row = r.Row
		return row, err
	})
}

func (p part) Count(_ context.Context, f *filter.Filter) (int, error) {
	in := &partQuestion{}
	if f != nil {
		in.Where = f.String()
	}
	return ask[int](p, "count", in)
}

func (p part) Labels(context.Context) (map[string]int, error) {
	return ask[map[string]int](p, "labels", &partQuestion{})
}
