package main

import (
	"strings"
	"testing"
)

// TestFilterArgs checks where the word where begins a filter, and where it is a key or a word.
func TestFilterArgs(t *testing.T) {
	parser, err := newParser(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"count f c where a < 1":                 "count f c --where=a < 1",
		"f count c where a < 1 --json":          "count f c --where=a < 1 --json",
		"rows f c where a = -1 --limit 3":       "rows f c --where=a = -1 --limit 3",
		"search f c like where where a = 1":     "search f c like where --where=a = 1",
		"search f c like where":                 "search f c like where",
		"count f where where a = 1":             "count f where --where=a = 1",
		"put f c where [1]":                     "put f c where [1]",
		"get f c where x":                       "get f c where x",
		"import f where a.csv --label-column l": "import f where a.csv --label-column l",
		"count f c -- where a":                  "count f c -- where a",
		"count --workers=2 f c where a = 1":     "count --workers=2 f c --where=a = 1",
		"tree f where x":                        "tree f where x",
	} {
		got := strings.Join(filterArgs(parser.Model, fileFirst(parser.Model, strings.Fields(args))), " ")
		if got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}
