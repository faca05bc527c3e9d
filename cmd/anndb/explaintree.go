package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// treeAnswer is a row's prediction by a tree and the path that led to it.
type treeAnswer struct {
	query  string
	labels []db.Prediction
	path   *db.TreePath
}

// treeColumns are those of paths: with the decisions, and of a decision the features
// that the row has. JSON has one object a query.
func treeColumns(f table.Format) []string {
	if f == table.JSON {
		return []string{"query", "labels", "path"}
	}
	return []string{"query", "step", "decision", "what", "weight:3", "value:3", "adds:3"}
}

// addTree writes an answer.
func (c *predictCmd) addTree(t *table.Stream, a treeAnswer, f table.Format) {
	if f != table.JSON {
		c.addPath(t, a, f != table.CSV)
		return
	}
	labels := []scoredLabel{}
	for _, p := range a.labels {
		labels = append(labels, scoredLabel{p.Label, p.Score})
	}
	t.Add(a.query, labels, c.pathJSON(a.path))
}

// scoredLabel is a predicted label as JSON has it.
type scoredLabel struct {
	Label string  `json:"label"`
	Score float32 `json:"score"`
}

// pathJSON is a db.TreePath as JSON has it.
type pathJSON struct {
	Class     string         `json:"class,omitempty"`
	Decisions []decisionJSON `json:"decisions"`
	Answer    []string       `json:"answer"`
	Rows      int            `json:"rows"`
	Agree     int            `json:"agree"`
}

type decisionJSON struct {
	Node     int        `json:"node"`
	Label    string     `json:"label,omitempty"`
	Yes      bool       `json:"yes"`
	Margin   float64    `json:"margin"`
	Offset   float64    `json:"offset"`
	Votes    int        `json:"votes"`
	Voters   int        `json:"voters"`
	Rows     int        `json:"rows"`
	Errors   int        `json:"errors"`
	Always   []string   `json:"always,omitempty"`
	Looks    int        `json:"looks_at"`
	Present  int        `json:"present"`
	Features []termJSON `json:"features"`
}

type termJSON struct {
	Feature string  `json:"feature"`
	Weight  float32 `json:"weight"`
	Value   float32 `json:"value"`
	Adds    float64 `json:"adds"`
}

func (c *predictCmd) pathJSON(p *db.TreePath) pathJSON {
	out := pathJSON{
		Class: p.Class, Decisions: []decisionJSON{}, Answer: append([]string{}, p.Labels...),
		Rows: p.Rows, Agree: p.Agree,
	}
	for _, d := range p.Path {
		to := decisionJSON{
			Node: d.Node, Label: d.Label, Yes: d.Yes, Margin: d.Margin, Offset: d.Offset,
			Votes: d.Votes, Voters: d.Voters, Rows: d.Rows, Errors: d.Errors, Always: d.Always,
			Looks: d.Features, Present: len(d.Contributions), Features: []termJSON{},
		}
		for _, f := range d.Contributions[:c.shown(len(d.Contributions))] {
			to.Features = append(to.Features, termJSON{f.Feature, f.Weight, f.Value, f.Margin})
		}
		out.Decisions = append(out.Decisions, to)
	}
	return out
}

// addPath writes one row for each decision and one for each part of its margin. For
// people query and decision are written once.
func (c *predictCmd) addPath(t *table.Stream, a treeAnswer, people bool) {
	query := any(a.query)
	add := func(step, decision, what any, numbers ...any) {
		t.Add(append([]any{query, step, decision, what}, numbers...)...)
		if people {
			query = nil
		}
	}
	for i, d := range a.path.Path {
		step, decision := any(i+1), any(c.askedOf(d, a.path))
		add(step, decision, "margin", nil, nil, d.Margin)
		if people {
			step, decision = nil, nil
		}
		for _, f := range d.Contributions[:c.shown(len(d.Contributions))] {
			add(step, decision, f.Feature, f.Weight, f.Value, f.Margin)
		}
		if rest := d.Contributions[c.shown(len(d.Contributions)):]; len(rest) > 0 {
			sum := 0.0
			for _, f := range rest {
				sum += f.Margin
			}
			add(step, decision, fmt.Sprintf("%d more", len(rest)), nil, nil, sum)
		}
		add(step, decision, "offset", nil, nil, d.Offset)
	}
	add("leaf", c.leafOf(a), nil)
}

// askedOf is a decision on one line.
func (c *predictCmd) askedOf(d db.TreeDecision, p *db.TreePath) string {
	what := d.Label
	switch {
	case what == "" && p.Class != "":
		what = fmt.Sprintf("%s, node %d", p.Class, d.Node)
	case what == "":
		what = fmt.Sprintf("node %d", d.Node)
	}
	answer := "no"
	if d.Yes {
		answer = "yes"
	}
	s := what + "? " + answer
	if d.Voters > 1 {
		s += fmt.Sprintf(" (%d of %d votes)", max(d.Votes, d.Voters-d.Votes), d.Voters)
	}
	if len(d.Always) > 0 {
		s += ", always " + c.list(d.Always)
	}
	return s
}

// list is names on one line, as many as evidence is shown.
func (c *predictCmd) list(names []string) string {
	n := c.shown(len(names))
	s := strings.Join(names[:n], ", ")
	if n < len(names) {
		s += fmt.Sprintf(" and %d more", len(names)-n)
	}
	return s
}

// leafOf is what a path came to: the answer, with the scores of its labels.
func (c *predictCmd) leafOf(a treeAnswer) string {
	var parts []string
	for _, p := range a.labels {
		parts = append(parts, fmt.Sprintf("%s (%.3g)", p.Label, math.Round(1e4*float64(p.Score))/1e4))
	}
	answer := c.list(parts)
	if answer == "" {
		answer = "no label"
	}
	return fmt.Sprintf("%s; %d training rows, %d of them so", answer, a.path.Rows, a.path.Agree)
}
