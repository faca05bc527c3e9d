package queries

import (
	"fmt"

	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/cmd/anndb/internal/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/text"
)

// hitTable is the table of a search.
type hitTable struct {
	cmd    *Search
	s      *db.Snapshot
	info   db.CollectionInfo
	out    *table.Stream
	labels bool // some row has labels
	people bool // who need no numbers of rows
	// byVector and byText report which parts the queries have.
	byVector, byText bool
	before           int  // the number of hits of earlier pages
	alone            bool // the query, a text, is the only one: it is not repeated
}

func (t *hitTable) columns() []string {
	columns := []string{"query", "rank", "key"}
	if t.alone {
		columns = columns[1:]
	}
	if !t.people {
		columns = append(columns, "row")
	}
	switch both := t.byVector && t.byText; {
	case both && t.people:
		columns = append(columns, "score:4", "by_text", "by_vector")
	case both:
		columns = append(columns, "score:4", "by_text", "by_vector", "text_score:4", "distance:4")
	case t.byText:
		columns = append(columns, "score:4")
	default:
		columns = append(columns, "distance:4")
	}
	if t.cmd.reranks() {
		columns = append(columns, "ranked_by:4")
	}
	if t.labels {
		columns = append(columns, "labels")
	}
	if t.cmd.Payload {
		columns = append(columns, "payload")
	}
	if t.cmd.Values {
		columns = append(columns, "attributes", "expires")
	}
	if t.cmd.Explain {
		columns = append(columns, "explanation")
	}
	if t.info.Text != nil {
		columns = append(columns, "snippet")
		if !t.people {
			columns = append(columns, "text")
		}
	}
	return columns
}

// add writes the hits of a query.
func (t *hitTable) add(q input.Query, hits []db.Hit, o table.Output) error {
	terms := input.Terms(q.Query.Text, t.info)
	for i, h := range hits {
		at := t.before + i
		values := []any{q.Key, at + 1, string(h.Key)}
		if t.alone {
			values = values[1:]
		}
		if !t.people {
			values = append(values, h.Row)
		}
		if t.byText {
			values = append(values, 0-h.Distance)
		} else {
			values = append(values, h.Distance)
		}
		if t.byVector && t.byText {
			values = append(values, t.places(at, &h, q)...)
		}
		if t.cmd.reranks() {
			values = append(values, h.Score)
		}
		if t.labels || t.cmd.Payload || t.cmd.Values {
			row, err := t.s.Collection(t.cmd.Collection).GetRow(h.Row)
			if err != nil {
				return err
			}
			if t.labels {
				values = append(values, row.Labels)
			}
			if t.cmd.Payload {
				values = append(values, string(row.Payload))
			}
			if t.cmd.Values {
				shown, err := rows.AttributesShown(row.Attributes, o)
				if err != nil {
					return fmt.Errorf("row %q: %w", row.Key, err)
				}
				values = append(values, shown, rows.ExpiryShown(row.ExpiresAt))
			}
		}
		switch {
		case t.cmd.Explain && h.Why == nil:
			values = append(values, nil)
		case t.cmd.Explain && o.InJSON():
			values = append(values, newReasonJSON(h.Why, 0))
		case t.cmd.Explain && t.info.Text != nil:
			values = append(values, h.Why.String())
		case t.cmd.Explain:
			values = append(values, h.Why.Text)
		}
		if t.info.Text != nil {
			values = append(values, t.snippet(h.Text, terms))
			if !t.people {
				values = append(values, h.Text)
			}
		}
		t.out.Add(values...)
	}
	return t.out.Err()
}

// places are the columns of the parts of a query: the places in each, for programs the scores too.
func (t *hitTable) places(at int, h *db.Hit, q input.Query) []any {
	p := h.Places
	switch {
	case p != nil:
	case q.Query.Vector != nil: // of a query that has one of the parts only
		p = &rank.Places{VectorRank: at + 1, Distance: h.Distance}
	default:
		p = &rank.Places{TextRank: at + 1, Score: -h.Distance}
	}
	values := []any{place(p.TextRank), place(p.VectorRank)}
	if t.people {
		return values
	}
	distance := any(p.Distance)
	if p.Distance == 0 && p.VectorRank == 0 { // a row without a vector
		distance = nil
	}
	return append(values, p.Score, distance)
}

// place is a rank, nothing if there is none.
func place(rank int) any {
	if rank == 0 {
		return nil
	}
	return rank
}

// snippet is the part of a text that has most terms of the query, with these marked.
func (t *hitTable) snippet(s string, terms map[string]bool) table.Marked {
	analyze := text.ByName(t.info.Text.Analyzer)
	if analyze == nil { // one of a program
		analyze = text.ByName(text.Words)
	}
	marks := text.SnippetOptions{Start: table.Mark, End: table.Mark}
	return table.Marked(text.Snippet(s, terms, analyze, marks))
}
