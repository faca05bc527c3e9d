package ask

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Question is something a snapshot can be asked.
type Question struct {
	// Name tells what is asked, Group is the collection and, for indexes, its
	// index, as "collection" or "collection/index".
	Name, Group string
	// Exact says that the answer follows from the rows alone, whatever the
	// parameters of an index are.
	Exact bool
	ask   func(s *db.Snapshot, w *answer) error
}

// Answer is what is kept of an answer.
type Answer struct {
	Digest uint64
	// Text is how it begins.
	Text string
	// Distances are those of the rows found, in order, if the query had a vector.
	Distances []float32
}

// Ask asks.
func (q *Question) Ask(s *db.Snapshot) (Answer, error) {
	w := &answer{}
	if err := q.ask(s, w); err != nil {
		return Answer{}, err
	}
	return Answer{uint64(w.a)<<32 | uint64(w.b), w.head.String(), w.distances}, nil
}

// answer takes an answer down.
type answer struct {
	a, b      uint32 // checksums by two polynomials: one of them guards the file
	head      strings.Builder
	buf       []byte
	distances []float32
}

const headBytes = 200

func (w *answer) printf(format string, a ...any) {
	w.buf = fmt.Appendf(w.buf[:0], format, a...)
	w.flush()
	if w.head.Len() < headBytes {
		w.head.Write(w.buf[:min(len(w.buf), headBytes)])
	}
}

func (w *answer) flush() {
	w.a = crc32.Update(w.a, crc32.IEEETable, w.buf)
	w.b = crc32.Update(w.b, castagnoli, w.buf)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// floats takes coordinates down by their bits, which is many times as fast as
// by their decimals.
func (w *answer) floats(x []float32) {
	w.buf = w.buf[:0]
	for _, v := range x {
		w.buf = binary.LittleEndian.AppendUint32(w.buf, math.Float32bits(v))
	}
	w.flush()
}

func (w *answer) row(r db.Row) {
	w.printf("%d %s", r.Row, r.Key)
	for _, l := range r.Labels {
		w.buf = append(append(w.buf[:0], ' '), l...)
		w.flush()
	}
	w.buf = append(append(w.buf[:0], r.Text...), r.Payload...)
	w.flush()
	w.floats(r.Vector)
	w.floats(r.Sparse.Value)
	for _, f := range r.Sparse.Index {
		w.buf = binary.LittleEndian.AppendUint32(w.buf[:0], f)
		w.flush()
	}
	for _, f := range r.Features {
		w.buf = append(w.buf[:0], f.Name...)
		w.buf = binary.LittleEndian.AppendUint32(w.buf, math.Float32bits(f.Value))
		w.flush()
	}
}

func (w *answer) hits(hits []db.Hit) {
	for _, h := range hits {
		w.printf("%s %d %x;", h.Key, h.Row, math.Float32bits(h.Distance))
	}
}

func (w *answer) predictions(out []db.Prediction) {
	for _, p := range out {
		w.printf("%s %x %x %v;", p.Label, math.Float32bits(p.Score), math.Float32bits(p.Probability), p.Predicted)
		if p.Why != nil {
			w.reason(p.Why)
		}
	}
}

func (w *answer) reason(r *explain.Reason) {
	w.printf("%s %x %q %g %g (", r.Text, r.Key, r.Feature, r.Value, r.Score)
	for i := range r.Parts {
		w.reason(&r.Parts[i])
	}
	w.printf(");")
}

// Questions are all questions about the collections, in a fixed order.
func Questions(colls []Collection) []Question {
	out := []Question{{Name: "collections", ask: func(s *db.Snapshot, w *answer) error {
		text, err := json.Marshal(s.Collections())
		w.printf("%s", text)
		return err
	}}}
	for i := range colls {
		c := &colls[i]
		out = append(out, c.rows()...)
		out = append(out, c.scans()...)
		for _, x := range c.Indexes {
			out = append(out, c.index(x)...)
		}
	}
	return out
}

// rows asks for the rows, their keys and labels.
func (c *Collection) rows() []Question {
	var out []Question
	add := func(name string, ask func(s *db.Snapshot, w *answer) error) {
		out = append(out, Question{name + " of " + c.Name, c.Name, true, ask})
	}
	for i, key := range c.Keys {
		add(fmt.Sprint("row ", i), func(s *db.Snapshot, w *answer) error {
			r, err := s.Collection(c.Name).Get(key)
			if errors.Is(err, db.ErrNotFound) {
				w.printf("not found")
				return nil
			}
			w.row(r)
			return err
		})
	}
	add("rows", func(s *db.Snapshot, w *answer) error {
		for r, err := range s.Collection(c.Name).Rows(context.Background(), nil) {
			if err != nil {
				return err
			}
			w.row(r)
		}
		return nil
	})
	add("keys", func(s *db.Snapshot, w *answer) error {
		for k, err := range s.Collection(c.Name).Keys(nil, nil) {
			if err != nil {
				return err
			}
			w.printf("%s;", k)
		}
		return nil
	})
	add("labels", func(s *db.Snapshot, w *answer) error {
		l, err := s.Collection(c.Name).Labels()
		w.printf("%v", l)
		return err
	})
	return out
}

// neighbours is how many rows the questions ask for.
const neighbours = 10

// search asks for nearest rows by an index, or by comparing with all.
func (c *Collection) search(name, index, kind string, q db.Query, o db.SearchOptions) Question {
	q = c.asked(q, kind)
	exact := q.Vector == nil || index == db.Flat
	group := c.Name
	if index != db.Flat {
		group += "/" + index
	}
	return Question{"search " + c.Name + " " + name, group, exact, func(s *db.Snapshot, w *answer) error {
		ctx := context.Background()
		with := o
		with.K, with.Index = neighbours, index
		found, err := s.Collection(c.Name).Search(ctx, q, &with)
		if q.Vector != nil {
			for _, h := range found.Hits {
				w.distances = append(w.distances, h.Distance)
			}
		}
		w.hits(found.Hits)
		return err
	}}
}

// scans compares with all rows, and with those of labels.
func (c *Collection) scans() []Question {
	var out []Question
	for i, q := range c.Queries {
		out = append(out, c.search(fmt.Sprint("flat ", i), db.Flat, "", q, db.SearchOptions{}))
	}
	if len(c.Queries) == 0 {
		return out
	}
	for _, l := range c.Labels {
		has := filter.HasLabel(l)
		out = append(out, c.search("label "+l, db.Flat, "", c.Queries[0], db.SearchOptions{Where: has}),
			c.search("no label "+l, db.Flat, "", c.Queries[0], db.SearchOptions{Where: filter.Not(has)}))
	}
	for _, key := range c.Keys {
		prefix := filter.KeyPrefix(key[:(len(key)+1)/2])
		out = append(out, c.search(fmt.Sprintf("prefix of %q", key), db.Flat, "", c.Queries[0],
			db.SearchOptions{Where: prefix}))
	}
	return out
}

// index asks an index by every method it has.
func (c *Collection) index(x Index) []Question {
	group := c.Name + "/" + x.Name
	out := []Question{{"description of " + group, group, false, func(s *db.Snapshot, w *answer) error {
		info, err := s.Collection(c.Name).Index(x.Name)
		w.printf("%s %s %d %d", info.Name, info.Kind, info.Rows, info.TrainingPoints)
		return err
	}}}
	for i, q := range c.Queries {
		at := fmt.Sprintf(" %s %d", x.Name, i)
		switch {
		case Predicts(x.Kind):
			out = append(out, c.predict("set"+at, x, q, db.PredictOptions{Explain: true}), c.predict("top"+at, x, q, db.PredictOptions{Top: 3}))
			if x.isTree() {
				out = append(out, c.path(x, q, i))
			}
		case x.Kind == "postings":
			out = append(out, c.search("lists"+at, x.Name, x.Kind, q, db.SearchOptions{}))
		default:
			params := map[string]query.Params{
				"natural": {Tau: 0.02, NoWiden: true},
				"sketch":  {Tau: 0.05, Sketch: true, NoWiden: true},
				"beam":    {Tau: 0.05, Sketch: true, Beam: 30, NoWiden: true},
				"zero":    {Method: query.NaturalZero, Extra: 2, NoWiden: true},
			}
			names := []string{"natural", "sketch", "beam", "zero"}
			if x.Members {
				params["voting"] = query.Params{Method: query.Voting, Votes: 2}
				params["lookup"] = query.Params{Method: query.Lookup, NoWiden: true}
				names = append(names, "voting", "lookup")
			}
			for _, n := range names {
				p := params[n]
				out = append(out, c.search(n+at, x.Name, x.Kind, q, db.SearchOptions{Params: &p}))
			}
		}
	}
	if x.isTree() {
		out = append(out, Question{"picture of " + group, group, false, func(s *db.Snapshot, w *answer) error {
			p, err := s.Collection(c.Name).TreePicture(x.Name, nil)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			err = p.WriteText(&b)
			w.printf("%s", b.Bytes())
			return err
		}})
	}
	return out
}

func (c *Collection) predict(name string, x Index, q db.Query, o db.PredictOptions) Question {
	o.Index = x.Name
	return Question{"predict " + c.Name + " " + name, c.Name + "/" + x.Name, false, func(s *db.Snapshot, w *answer) error {
		p, err := s.Collection(c.Name).Predict(context.Background(), c.asked(q, x.Kind), &o)
		w.predictions(p.Labels)
		return err
	}}
}

func (c *Collection) path(x Index, q db.Query, i int) Question {
	return Question{fmt.Sprintf("path %s %s %d", c.Name, x.Name, i), c.Name + "/" + x.Name, false, func(s *db.Snapshot, w *answer) error {
		p, err := s.Collection(c.Name).Predict(context.Background(), c.asked(q, x.Kind),
			&db.PredictOptions{Index: x.Name, Explain: true})
		if err == nil {
			w.reason(p.Why)
		}
		return err
	}}
}

// asked is the part of a query that an index of the kind answers, or, if that is empty, a scan.
func (c *Collection) asked(q db.Query, kind string) db.Query {
	switch {
	case c.Texts && (c.Dim == 0 || kind == "postings" || Predicts(kind)):
		return db.Query{Text: q.Text}
	case c.Texts && kind == "":
		return db.Query{Text: q.Text, Vector: q.Vector}
	case c.Dim > 0:
		return db.Query{Vector: q.Vector}
	case c.Named:
		return db.Query{Features: q.Features}
	}
	return db.Query{Sparse: vector.Sparse{Index: q.Sparse.Index, Value: q.Sparse.Value}}
}

// isTree reports whether an index is a tree that can be drawn.
func (x Index) isTree() bool { return x.Kind == "at" || x.Kind == "pt" || x.Kind == "sbt" }
