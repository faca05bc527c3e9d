package labelled

import (
	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/kind"
)

// Labels are those of a stored model, which is rebuilt when there are others.
type Labels struct {
	names codec.Strings
	rows  []uint32 // the number of training rows of each
}

// ReadLabels reads n labels from the arrays with these numbers.
func ReadLabels(a *arrays.Section, names, rows uint32, n int) (l Labels) {
	l.names = a.ReadNames(names, n)
	arrays.FieldOf(a, rows, &l.rows, n)
	return l
}

// Names returns the names, by number.
func (l *Labels) Names() []string { return l.names.All() }

// Name returns the name of a label.
func (l *Labels) Name(label uint32) string { return string(l.names.At(int(label))) }

// NamesOf returns the names of labels.
func (l *Labels) NamesOf(list []uint32) (out []string) {
	for _, label := range list {
		out = append(out, l.Name(label))
	}
	return out
}

// RowsWith returns the number of training rows that have a label.
func (l *Labels) RowsWith(label uint32) int { return int(l.rows[label]) }

// Before orders labels by name.
func (l *Labels) Before(a, b uint32) bool { return l.Name(a) < l.Name(b) }

// Answer appends the labels of a list that are requested, with their names: with a calibration those that
// LabelAsk.Choose selects by their probabilities, otherwise those at places of the list, which is best first.
func (l *Labels) Answer(o *kind.LabelAsk, list []kind.Ranked, a *kind.LabelAnswer) {
	first := len(a.Labels)
	if o.Calibration != nil {
		a.Labels = o.Choose(a.Labels, list, l.RowsWith, l.Before)
	} else {
		for place, r := range list {
			if o.Wants(place, r.Predicted) {
				a.Labels = append(a.Labels, r)
			}
		}
	}
	for i := range a.Labels[first:] {
		r := &a.Labels[first+i]
		r.Name = l.Name(r.Label)
	}
}
