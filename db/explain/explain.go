// Package explain has the reasons of the answers of package db.
package explain

import (
	"fmt"
	"strings"
)

// Reason explains an answer by its parts, largest first. The parts of a prediction by LCIF are rows
// and features, those of a path through a tree its decisions in order, those of a decision features
// and an offset, those of a hit the leaves that elected it, with their votes as a share, or the terms
// of a text.
type Reason struct {
	Text    string  // a key, a feature, or a description such as "goal? yes"
	Key     []byte  // if the part is a row
	Feature string  // if the part is a feature
	Value   float64 // the similarity of a row, or the value of a feature as the tree weighs it
	// Score is what the part adds to the total: for a decision its margin, for the leaf of a path
	// the share of its training rows that have its answer, for a hit the estimate of its label, and for linear
	// classifiers the margin of the label's own.
	Score float64
	Parts []Reason
}

// printedParts is the number of parts of a part that String shows.
const printedParts = 4

// String returns the main parts on one line; nil is an empty string.
func (r *Reason) String() string {
	if r == nil {
		return ""
	}
	s := r.Text
	if len(r.Parts) > 0 {
		s += ": " + listReasons(r.Parts)
	}
	return s
}

func listReasons(parts []Reason) string {
	var list []string
	for i := range min(len(parts), printedParts) {
		s := fmt.Sprintf("%s %.3g", parts[i].Text, parts[i].Score)
		if len(parts[i].Parts) > 0 {
			s += " (" + listReasons(parts[i].Parts) + ")"
		}
		list = append(list, s)
	}
	if more := len(parts) - printedParts; more > 0 {
		list = append(list, fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}
