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
)

// PartPattern is the route of a node that PartHandler answers.
const PartPattern = "POST /cluster/part/{shard}/{collection}/{question}"

// partQuestion is what a group asks of a part.
type partQuestion struct {
	Search  *wire.Search  `json:"search,omitempty"`
	Predict *wire.Predict `json:"predict,omitempty"`
	Ask     *group.Ask    `json:"ask,omitempty"`
	Keys    []wire.Key    `json:"keys,omitempty"`
	Where   string        `json:"where,omitempty"`
	// Index is that of a model, Version that which the gateway has: of an equal model the answer has no more.
	Index    string          `json:"index,omitempty"`
	Version  uint64          `json:"version,omitempty"`
	Features []group.Feature `json:"features,omitempty"`
}

// partAnswer is an answer of a part to one of the questions.
type partAnswer struct {
	Info     *wire.Collection `json:"info,omitempty"`
	Terms    *group.Terms     `json:"terms,omitempty"`
	Result   *wire.Result     `json:"result,omitempty"`
	Found    []group.Found    `json:"found,omitempty"`
	Model    *group.Model     `json:"model,omitempty"`
	Sums     []group.Sums     `json:"sums,omitempty"`
	Evidence *group.Evidence  `json:"evidence,omitempty"`
	Rows     []partRow        `json:"rows,omitempty"`
	Count    int              `json:"count,omitempty"`
	Labels   map[string]int   `json:"labels,omitempty"`
}

// partRow is a row as a line of a jsonl file, with its number.
type partRow struct {
	Row  uint32          `json:"row"`
	Line json.RawMessage `json:"line"`
}

// PartHandler answers what gateways ask of the shards of a node. find returns the file of a shard, nil for one
// that the node does not serve.
func PartHandler(find func(shard string) *db.DB) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out *partAnswer
		var err error
		if d := find(r.PathValue("shard")); d == nil {
			err = fmt.Errorf("%w: shard %q is not here", wire.ErrUnavailable, r.PathValue("shard"))
		} else {
			out, err = answerPart(r, d.Collection(r.PathValue("collection")))
		}
		status, body := http.StatusOK, []byte(nil)
		if err == nil {
			body, err = json.Marshal(out)
		}
		if err != nil {
			e := wire.NewError(err)
			status = e.Status
			body, _ = json.Marshal(wire.Failure{Error: e})
		}
		w.Header().Set("Content-Type", wire.JSON)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})
}

// answerPart answers a question about a collection.
func answerPart(r *http.Request, c db.Collection) (out *partAnswer, err error) {
	var in partQuestion
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err == nil {
		err = wire.Unmarshal(body, &in)
	}
	if err != nil {
		return nil, err
	}
	out = &partAnswer{}
	p, ctx := group.Of(c), r.Context()
	switch question := r.PathValue("question"); question {
	case "info":
		info, err := p.Info(ctx)
		form := wire.NewCollectionInfo(&info)
		out.Info = &form
		return out, err
	case "terms", "search":
		if in.Search == nil || in.Ask == nil {
			return nil, fmt.Errorf(`%w: want "search" and "ask"`, wire.ErrJSON)
		}
		queries, o, err := in.Search.Get()
		if err != nil {
			return nil, err
		}
		if question == "terms" {
			terms, err := p.Terms(ctx, queries[0], in.Ask)
			out.Terms = &terms
			return out, err
		}
		found, err := p.Search(ctx, queries[0], o, in.Ask)
		out.Result, out.Found = wire.NewResult(&found.Result, true), found.Found
		return out, err
	case "model":
		m, err := p.Model(ctx, in.Index)
		if m.Version == in.Version {
			m = group.Model{Version: m.Version}
		}
		out.Model = &m
		return out, err
	case "sums":
		out.Sums, err = p.Sums(ctx, in.Index, in.Version, in.Features)
		if errors.Is(err, db.ErrNotFound) {
			err = fmt.Errorf("%w: %w", wire.ErrUnavailable, err) // another replica may have the version
		}
		return out, err
	case "evidence":
		if in.Predict == nil || in.Ask == nil || in.Predict.Params == nil {
			return nil, fmt.Errorf(`%w: want "predict" with "params", and "ask"`, wire.ErrJSON)
		}
		queries, o, err := in.Predict.Get()
		if err != nil {
			return nil, err
		}
		e, err := p.Evidence(ctx, queries[0], o, in.Ask)
		out.Evidence = &e
		return out, err
	case "rows":
		return out, out.setRows(ctx, c, in.Keys)
	case "count":
		where, err := wire.Where(in.Where)
		if err == nil {
			out.Count, err = p.Count(ctx, where)
		}
		return out, err
	case "labels":
		out.Labels, err = p.Labels(ctx)
		return out, err
	default:
		return nil, fmt.Errorf("%w: question %.40q of a part", wire.ErrRoute, question)
	}
}

// setRows sets the rows that have the keys.
func (a *partAnswer) setRows(ctx context.Context, c db.Collection, keys []wire.Key) error {
	info, err := c.Info()
	if err != nil {
		return err
	}
	schema := rows.Schema(&info)
	schema.Base64 = true
	list := make([][]byte, len(keys))
	for i, k := range keys {
		if list[i], err = k.Get(); err != nil {
			return err
		}
	}
	found, err := group.Of(c).Rows(ctx, list)
	for i := range found {
		line, err := rows.AppendJSON(nil, &found[i], schema)
		if err != nil {
			return err
		}
		a.Rows = append(a.Rows, partRow{found[i].Row, line})
	}
	return err
}

// part is the collection of a request in a shard, as a part of a group.
type part struct {
	c     *call
	s     *shardlog.Shard
	name  string
	fresh bool // the description of the collection has to be the latest
}

// infoTime is how long the description of a part is used, where it need not be the latest.
const infoTime = time.Second

// known is the description of a part.
type known struct {
	info  db.CollectionInfo
	until time.Time
}

// ask sends a question to a replica.
func (p part) ask(what string, in *partQuestion) (out partAnswer, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("%w: %w", db.ErrInvalid, err) // a number that JSON does not have
	}
	path := "/cluster/part/" + wire.PathKey([]byte(p.s.ID)) + "/" + wire.PathKey([]byte(p.name)) + "/" + what
	out, err = fetch[partAnswer](p.c, p.s, &question{kind: what, method: http.MethodPost, path: path, body: body})
	if errors.Is(err, wire.ErrUnavailable) {
		err = missingShard{err, p.s.ID}
	}
	return out, err
}

// Model returns the description of a label model, which is not older than infoTime.
func (p part) Model(_ context.Context, index string) (group.Model, error) {
	type known struct {
		model group.Model
		until time.Time
	}
	name := "model " + p.s.ID + "/" + p.name + "/" + index
	x, _ := p.c.g.infos.Load(name)
	had, _ := x.(known)
	if time.Now().Before(had.until) {
		return had.model, nil
	}
	out, err := p.ask("model", &partQuestion{Index: index, Version: had.model.Version})
	if err != nil || out.Model == nil {
		p.c.g.infos.Delete(name)
		return group.Model{}, err
	}
	if out.Model.Version != had.model.Version {
		had.model = *out.Model
	}
	p.c.g.infos.Store(name, known{had.model, time.Now().Add(infoTime)})
	return had.model, nil
}

func (p part) Sums(_ context.Context, index string, version uint64, features []group.Feature) ([]group.Sums, error) {
	out, err := p.ask("sums", &partQuestion{Index: index, Version: version, Features: features})
	if err != nil {
		p.c.g.infos.Delete("model " + p.s.ID + "/" + p.name + "/" + index) // which may have changed
	}
	return out.Sums, err
}

func (p part) Evidence(
	_ context.Context, q db.Query, o *db.PredictOptions, ask *group.Ask,
) (e group.Evidence, err error) {
	in := wire.NewPredict(o)
	in.Query = wire.NewQuery(q)
	out, err := p.ask("evidence", &partQuestion{Predict: in, Ask: ask})
	if err == nil && out.Evidence != nil {
		e = *out.Evidence
	}
	return e, err
}

func (p part) Info(context.Context) (db.CollectionInfo, error) {
	name := p.s.ID + "/" + p.name
	if x, ok := p.c.g.infos.Load(name); ok && !p.fresh && time.Now().Before(x.(known).until) {
		return x.(known).info, nil
	}
	out, err := p.ask("info", &partQuestion{})
	if err != nil {
		p.c.g.infos.Delete(name)
		return db.CollectionInfo{}, err
	}
	info, err := out.Info.Get()
	if err == nil {
		p.c.g.infos.Store(name, known{info, time.Now().Add(infoTime)})
	}
	return info, err
}

func (p part) Terms(_ context.Context, q db.Query, ask *group.Ask) (t group.Terms, err error) {
	out, err := p.ask("terms", &partQuestion{Search: &wire.Search{Query: wire.NewQuery(q)}, Ask: ask})
	if err == nil && out.Terms != nil {
		t = *out.Terms
	}
	return t, err
}

func (p part) Search(
	_ context.Context, q db.Query, o *db.SearchOptions, ask *group.Ask,
) (a group.Answer, err error) {
	in := wire.NewSearch(o)
	in.Query, in.Include = wire.NewQuery(q), nil
	out, err := p.ask("search", &partQuestion{Search: in, Ask: ask})
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
	out, err := p.ask("rows", in)
	if err != nil {
		return nil, err
	}
	for _, r := range out.Rows {
		row, err := wire.ParseRow(r.Line, nil)
		if err != nil {
			return nil, err
		}
		row.Row = r.Row
		list = append(list, row)
	}
	return list, nil
}

func (p part) Count(_ context.Context, f *filter.Filter) (int, error) {
	in := &partQuestion{}
	if f != nil {
		in.Where = f.String()
	}
	out, err := p.ask("count", in)
	return out.Count, err
}

func (p part) Labels(context.Context) (map[string]int, error) {
	out, err := p.ask("labels", &partQuestion{})
	return out.Labels, err
}
