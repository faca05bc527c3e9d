package input

import (
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/text"
)

// parsed is a text as a query to a collection; nil if it is none, or if the collection has no texts or an
// analyzer that this program does not have.
func parsed(query string, info db.CollectionInfo) (*text.Query, error) {
	if info.Text == nil {
		return nil, nil
	}
	analyze := text.ByName(info.Text.Analyzer)
	if analyze == nil {
		return nil, nil
	}
	return text.ParseQuery(query, analyze)
}

// Terms are the terms of a query that count for scores; nil if it is no text.
func Terms(query string, info db.CollectionInfo) map[string]bool {
	q, err := parsed(query, info)
	if err != nil || q == nil {
		return nil
	}
	out := map[string]bool{}
	for _, t := range q.Terms {
		out[t] = true
	}
	return out
}

// typed are the words of a query by their terms.
func typed(query string, info db.CollectionInfo) map[string]string {
	out := map[string]string{}
	if info.Text == nil {
		return out
	}
	if analyze := text.ByName(info.Text.Analyzer); analyze != nil {
		analyze(query, func(t text.Token) { out[t.Term] = query[t.Start:t.End] })
	}
	return out
}

// checkQuery refuses a text by which nothing can be found.
func checkQuery(query string, info db.CollectionInfo) error {
	q, err := parsed(query, info)
	switch {
	case err != nil:
		return command.Usagef("%v", err)
	case q == nil || len(q.Terms) > 0:
		return nil
	case len(q.Left) > 0:
		return command.Usagef("the query has no word to search for: the analyzer %s of collection %q "+
			"leaves out %s", info.Text.Analyzer, info.Name, strings.Join(q.Left, ", "))
	}
	return command.Usagef("the query is empty")
}
