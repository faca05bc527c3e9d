package tools

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/text"
)

// Bounds of answers, which have to fit into the context of a model.
const (
	mostRows     = 100    // of a call
	mostBytes    = 60_000 // of the JSON of rows, from which on rows are left out
	usualText    = 500    // characters of each text of several
	mostText     = 20_000 // characters of one text
	mostValue    = 300    // characters of a reason, and of a payload of several
	mostTitle    = 60     // characters of the title of a row that is a reason
	mostEvidence = 5      // pieces of evidence of a reason
	mostParts    = 20     // labels of a row, collections, reasons
)

// row is a row as the tools show it.
type row struct {
	Key        string         `json:"key"`
	Labels     []string       `json:"labels,omitempty"`
	Attributes map[string]any `json:"attributes,omitempty"`
	Expires    string         `json:"expires,omitempty"`
	Text       string         `json:"text,omitempty"`
	TextLength int            `json:"text_length,omitempty"`
	Payload    string         `json:"payload,omitempty"`
	Cut        string         `json:"cut,omitempty"`
}

// newRow returns a row with the part of its text that show returns, and so many characters of its payload.
func newRow(r *db.Row, show func(string) string, payload int) row {
	out := row{Key: string(r.Key), Labels: r.Labels, Text: show(r.Text)}
	var cut []string
	if !utf8.Valid(r.Key) {
		cut = append(cut, fmt.Sprintf("bytes of the key %q, by which no tool can find it", r.Key))
	}
	if n := len(r.Labels); n > mostParts {
		out.Labels = r.Labels[:mostParts]
		cut = append(cut, fmt.Sprintf("%d of %d labels", n-mostParts, n))
	}
	if out.Text != r.Text {
		out.TextLength = utf8.RuneCountInString(r.Text)
	}
	for name, v := range r.Attributes {
		if out.Attributes == nil {
			out.Attributes = map[string]any{}
		}
		out.Attributes[name] = attributeShown(v)
	}
	if !r.ExpiresAt.IsZero() {
		out.Expires = r.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	if !utf8.Valid(r.Payload) {
		cut = append(cut, fmt.Sprintf("a payload of %d bytes that are no text", len(r.Payload)))
	} else if out.Payload = part(string(r.Payload), 0, payload); len(out.Payload) < len(r.Payload) {
		cut = append(cut, fmt.Sprintf("the end of the payload of %d bytes", len(r.Payload)))
	}
	out.Cut = strings.Join(cut, ", ")
	return out
}

// attributeShown returns the value of an attribute in JSON, as jsonl files have it.
func attributeShown(v any) any {
	switch v := v.(type) {
	case time.Time:
		return map[string]any{"$time": v.Format(time.RFC3339Nano)}
	case float64:
		if math.IsInf(v, 0) {
			return map[string]any{"$float": strconv.FormatFloat(v, 'g', -1, 64)}
		}
	}
	return v
}

// part returns n characters of a text after the first from ones.
func part(s string, from, n int) string {
	for range from {
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
	}
	end := 0
	for range n {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return s[:end]
}

// passage returns a function for the part of a text that lists of rows show: at most so many characters,
// with most words of the query.
func passage(info *db.CollectionInfo, query string, most int) func(string) string {
	analyze := text.ByName(text.Words) // for texts by an analyzer of another program
	if info.Text != nil && text.ByName(info.Text.Analyzer) != nil {
		analyze = text.ByName(info.Text.Analyzer)
	}
	terms := map[string]bool{}
	if q, err := text.ParseQuery(query, analyze); err == nil {
		for _, t := range q.Terms {
			terms[t] = true
		}
	}
	return func(s string) string {
		if utf8.RuneCountInString(s) <= most {
			return s
		}
		return text.Snippet(s, terms, analyze, text.SnippetOptions{Runes: most})
	}
}

// bounded returns as many rows as fit into an answer, at least one, and a note if there are more.
func bounded[T any](rows []T) ([]T, []string, error) {
	size := 0
	for i := range rows {
		b, err := json.Marshal(rows[i])
		if err != nil {
			return nil, nil, err
		}
		if size += len(b); size > mostBytes && i > 0 {
			return rows[:i], []string{fmt.Sprintf("Only %d of %d fit into the answer: ask for fewer, or for "+
				"shorter texts.", i, len(rows))}, nil
		}
	}
	return rows, nil, nil
}

// atMost checks a number and fills in its default.
func atMost(name string, n, usual, most int) (int, error) {
	switch {
	case n == 0:
		return usual, nil
	case n < 0 || n > most:
		return 0, fmt.Errorf("%s is %d: want 1 to %d", name, n, most)
	}
	return n, nil
}
