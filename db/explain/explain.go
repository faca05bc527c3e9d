// Package explain has the reasons of the answers of package db.
package explain

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Reason explains an answer by its parts, largest first. The parts of a prediction by LCIF are rows
// and features, those of a row the features that it shares with the query, those of a path through a tree
// its decisions in order, those of a decision features and an offset, which may be below 0, those of
// auto-labels its models, each with its own reason, those of a hit the leaves that elected it, with their
// votes as a share, or the terms of a text.
type Reason struct {
	Text string `json:"text"`          // a key, a feature, or a description such as "goal? yes"
	Key  Key    `json:"key,omitempty"` // if the part is a row
	// Title is the string attribute "title" of a row, or else the beginning of its text or payload. Of each list
	// of rows the first ten have it, Labels and Parts.
	Title   string   `json:"title,omitempty"`
	Labels  []string `json:"labels,omitempty"`
	Feature string   `json:"feature,omitempty"` // if the part is a feature
	// Value is the similarity of a row, what a feature adds to it, the value of a feature as the tree weighs it,
	// or the score of a model of auto-labels.
	Value float64 `json:"value,omitempty"`
	// Score is what the part adds to the total: for a decision its margin, for the leaf of a path
	// the share of its training rows that have its answer, for a hit the estimate of its label, and for linear
	// classifiers the margin of the label's own.
	Score     float64    `json:"score"`
	Threshold *Threshold `json:"threshold,omitempty"` // of a label
	Parts     []Reason   `json:"parts,omitempty"`
	// Against is what speaks against a label by LCIF: the nearest rows without it, and the features whose rows
	// have it less often than all rows. They are no part of the score: Score is what each would add at most, if
	// the row had the label, or if all rows with the feature, and no others, had it.
	Against []Reason `json:"against,omitempty"`
}

// Key is the key of a row: in JSON a text, or the field base64 of an object if it is none.
type Key []byte

type binaryKey struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON writes either form.
func (k Key) MarshalJSON() ([]byte, error) {
	if utf8.Valid(k) {
		return json.Marshal(string(k))
	}
	return json.Marshal(binaryKey{k})
}

// UnmarshalJSON reads either form.
func (k *Key) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*k = Key(text)
		return nil
	}
	var b binaryKey
	err := json.Unmarshal(raw, &b)
	*k = b.Base64
	return err
}

// Threshold is the least probability of a label that is predicted or, where Text says so, its least score, or
// that of the best label if only this one is predicted. Distance is how far the label is above it, or below.
// Both are 0 for the best label then, and for the labels of a leaf.
type Threshold struct {
	Text     string  `json:"text"`
	Value    float64 `json:"value"`
	Distance float64 `json:"distance"`
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
