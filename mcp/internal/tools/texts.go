package tools

import "github.com/google/jsonschema-go/jsonschema"

// Texts that a model reads.
const (
	instructions = `anndb is a database of rows in collections. A row has a key and a text, a vector or features;
it can have labels (classes), attributes (named values) and a payload. Begin with list, which describes the
collections. search finds the rows nearest to a query, rows counts and lists those that a filter selects, get
shows one row whole, predict has the labels that a model expects, explain the reasons of a hit or a label.`

	filters = `

Filters are conditions on attributes, labels and keys:
  price < 20 and not brand = "Acme"          numbers, strings in quotes, true, false
  label in (boot, bag)                       has one of the labels; also label = boot
  added >= 2024-05-01 and exists brand       dates, or times such as 2024-05-01T10:00:00Z, in UTC
  brand in (x, "y z") or name prefix "ab"    one of several values; strings that begin so
  key prefix "user/"                         keys that begin so; also key = p7, key in (p7, p8)
not binds closest, then and, then or. Names that are no words are in backquotes. A row without an attribute
passes no condition on it but !=.`

	listText = "Describes the database: its collections with the number of rows, what they are searched by, " +
		"attributes with examples, frequent labels, indexes and some keys. Call it first."
	searchText = "Finds the rows nearest to a query: words in texts (BM25), a vector, both, features, or a " +
		"stored row (like). Hits are ordered, best first. Long texts are cut to the passage with most words of " +
		"the query." + filters
	rowsText = "Counts and lists rows without a query, those that a filter selects or all." + filters
	getText  = "Shows one row by its key: labels, attributes, payload, 20,000 characters of the text at a time."
	predText = "Predicts the labels of a text, a vector, features or a stored row (like), by a label model " +
		"that was learned from the rows: an index of list for predictions."
	explText = "Explains an answer: with key, why search with the same query has that row among its first 100 " +
		"hits; otherwise why predict has its labels for the query."
	putText = "Writes rows: adds them, or changes those whose key exists. All or none are written; searches " +
		"find them at once. No vector is computed from a text. Ask the user before you change rows."
	delText = "Deletes rows by their keys, for good. Ask the user first."
)

// fields describes the fields of calls and answers, each of which has one meaning.
var fields = map[string]string{
	"collection":      "the collection; needed if the database has several",
	"filter":          "restricts the rows, as in: price < 20 and label in (boot, bag)",
	"like":            "the key of a stored row, in place of text, vector and features: rows like that one",
	"k":               "the number of hits, 1 to 100, 10 if left out",
	"n":               "the number of rows to show, 1 to 100, 10 if left out",
	"recall":          "the share of the nearest rows to find by a vector, 0.95 if left out; 1 is exact",
	"max_text":        "the characters of each text to show, 500 if left out",
	"index":           "the label model, an index of list for predictions; the default one if left out",
	"top":             "the number of labels, 1 to 100; if left out, the set that the model predicts",
	"min_probability": "leaves out labels of a smaller probability, 0 to 1",
	"from":            "the first character of the text to show: next of the answer before",
	"skip":            "leaves out the first rows: next of the answer before",
	"next":            "if there is more: from or skip of the next call",
	"replace":         "whether a row whose key exists loses what is left out here; otherwise it keeps that",
	"keys":            "keys of rows",

	"key":         "the unique key of a row, 1 to 512 bytes",
	"text":        `the text of a row, or words of a query: +word and "a phrase" are required, -word excluded`,
	"vector":      "an embedding by the model of the collection, which has vectors; also next to a text",
	"features":    "values by name, in collections of features",
	"text_length": "the characters of the whole text, if text is a part of it",
	"labels":      "classes or tags of a row; frequent ones with their rows; or predicted ones, best first",
	"attributes": `named values: strings, numbers, true, false, or {"$time": "2026-01-02T03:04:05Z"}; ` +
		"an attribute has one type in all rows. Of a collection: examples, null if none is at hand",
	"expires": "when the row is deleted, as in 2026-01-02T03:04:05Z",
	"payload": "a text that is kept with the row, but not searched",
	"cut":     "what of the row is left out here",

	"database":      "the file",
	"collections":   "the collections of the database",
	"name":          "the name for calls",
	"rows":          "rows, or how many there are",
	"searchable_by": "what a query can have: one of these, or a text and a vector",
	"label_count":   "the number of different labels",
	"indexes":       "what has been learned from the rows",
	"kind":          "the kind of the index",
	"predicts":      "whether it is a label model, for predictions; otherwise it is for searches",
	"default":       "whether calls that name no index use it",
	"meta":          "what a program has noted about the collection",

	"hits":        "rows, best first",
	"meaning":     "what the numbers of answers mean",
	"plan":        "how the hits were found, and with which recall",
	"distance":    "see meaning",
	"score":       "see meaning",
	"text_rank":   "the place by the text alone",
	"vector_rank": "the place by the vector alone",
	"rank":        "the place among all answers, from 1",
	"label":       "a label; of explain: the one to explain",
	"probability": "how probable the label is, if the model knows",
	"predicted":   "whether the label is in the set that the model predicts",
	"answers":     "the answers with their reasons",
	"reasons":     "what each part adds to the score, with its evidence in brackets",
	"against":     "what speaks against the label, with what each would add; no part of the score",
	"threshold":   "how far the label is from being predicted",
	"notes":       "what to know about the answer",
	"count":       "the number of all rows that the filter selects",
	"row":         "the row",
	"added":       "the number of new rows",
	"changed":     "the number of rows whose key existed",
	"deleted":     "the number of rows that are deleted",
	"missing":     "keys that no row had",
}

// schemaOf returns the schema of a type, with the descriptions of its fields.
func schemaOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // a mistake in the type
	}
	describeFields(s)
	return s
}

func describeFields(s *jsonschema.Schema) {
	for name, p := range s.Properties {
		p.Description = fields[name]
		describeFields(p)
	}
	if s.Items != nil {
		describeFields(s.Items)
	}
}
