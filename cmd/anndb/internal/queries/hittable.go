package queries

import (
	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/cmd/anndb/internal/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/text"
)

// hitTable is the table of a search.
type hitTable struct {
	coll    db.Collection
	out     *table.Stream
	names   []string
	values  []func(h *hit) any // of the columns
	needRow bool               // some column needs more of a row than its key
	// byVector and byText report which parts the queries have.
	byVector, byText bool
	before           int // the number of hits of earlier pages
}

// hit is what the columns are made of.
type hit struct {
	*db.Hit
	q      input.Query
	terms  map[string]bool // of q
	at     int             // its place, from 1
	places rank.Places
	row    db.Row // if needed
}

// add adds a column.
func (t *hitTable) add(name string, value func(h *hit) any) {
	t.names = append(t.names, name)
	t.values = append(t.values, value)
}

// begin begins the table. alone reports whether there is one query only.
func (t *hitTable) begin(a *command.App, c *Search, info db.CollectionInfo, labels, alone bool) (err error) {
	people := a.People() // who need no numbers of rows
	if !(alone && people && info.Text != nil) {
		t.add("query", func(h *hit) any { return h.q.Key })
	}
	t.add("rank", func(h *hit) any { return h.at })
	t.add("key", func(h *hit) any { return string(h.Key) })
	if !people {
		t.add("row", func(h *hit) any { return h.Row })
	}
	if t.byText {
		t.add("score:4", func(h *hit) any { return 0 - h.Distance })
	} else {
		t.add("distance:4", func(h *hit) any { return h.Distance })
	}
	if t.byVector && t.byText {
		t.add("by_text", func(h *hit) any { return place(h.places.TextRank) })
		t.add("by_vector", func(h *hit) any { return place(h.places.VectorRank) })
		if !people {
			t.add("text_score:4", func(h *hit) any { return h.places.Score })
			t.add("distance:4", func(h *hit) any {
				if h.places.Distance == 0 && h.places.VectorRank == 0 { // a row without a vector
					return nil
				}
				return h.places.Distance
			})
		}
	}
	if c.reranks() {
		t.add("ranked_by:4", func(h *hit) any { return h.Score })
	}
	t.needRow = labels || c.Payload || c.Values
	if labels {
		t.add("labels", func(h *hit) any { return h.row.Labels })
	}
	if c.Payload {
		t.add("payload", func(h *hit) any { return string(h.row.Payload) })
	}
	if c.Values {
		t.add("attributes", func(h *hit) any { return rows.Attributes(h.row.Attributes) })
		t.add("expires", func(h *hit) any { return rows.ExpiryShown(h.row.ExpiresAt) })
	}
	if c.Explain {
		t.add("explanation", func(h *hit) any {
			switch {
			case h.Why == nil:
				return nil
			case a.InJSON():
				return reasonShown(h.Why, 0)
			case info.Text != nil:
				return h.Why.String()
			}
			return h.Why.Text
		})
	}
	if info.Text != nil {
		t.add("snippet", func(h *hit) any { return snippet(h.Text, h.terms, info, people) })
		if !people {
			t.add("text", func(h *hit) any { return h.Text })
		}
	}
	t.out, err = a.Stream(t.names...)
	return err
}

// write writes the hits of a query.
func (t *hitTable) write(q input.Query, terms map[string]bool, hits []db.Hit) (err error) {
	for i := range hits {
		h := hit{Hit: &hits[i], q: q, terms: terms, at: t.before + i + 1}
		switch p := h.Places; {
		case p != nil:
			h.places = *p
		case q.Query.Vector != nil: // of a query that has one of the parts only
			h.places = rank.Places{VectorRank: h.at, Distance: h.Distance}
		default:
			h.places = rank.Places{TextRank: h.at, Score: -h.Distance}
		}
		if t.needRow {
			if h.row, err = t.coll.GetRow(h.Row); err != nil {
				return err
			}
		}
		cells := make([]any, len(t.values))
		for j, value := range t.values {
			cells[j] = value(&h)
		}
		t.out.Add(cells...)
	}
	return t.out.Err()
}

// place is a rank, nothing if there is none.
func place(rank int) any {
	if rank == 0 {
		return nil
	}
	return rank
}

// snippet is the part of a text that has most terms of the query, with these marked for people.
func snippet(s string, terms map[string]bool, info db.CollectionInfo, people bool) string {
	analyze := text.ByName(info.Text.Analyzer)
	if analyze == nil { // one of a program
		analyze = text.ByName(text.Words)
	}
	var marks text.SnippetOptions
	if people {
		marks = text.SnippetOptions{Start: "[", End: "]"}
	}
	return text.Snippet(s, terms, analyze, marks)
}
