package dataset

import (
	"errors"
	"fmt"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Limits of a record, whatever the file says. They are checked while the record is split, so that a file
// of a few kilobytes, compressed, does not need gigabytes. The numbers are those of rows in package db.
const (
	// DefaultMaxDim is the largest number of dimensions read or written when
	// Options.MaxDim is 0.
	DefaultMaxDim = 1 << 16
	// maxMaxDim bounds Options.MaxDim, so that a record's buffer stays below
	// 128 MiB even for 8-byte elements.
	maxMaxDim = 1 << 24
	// DefaultMaxFeatures is the number of features read or written when
	// Options.MaxFeatures is 0. A few bytes can make a feature number large.
	DefaultMaxFeatures = 1 << 28
	// maxMaxFeatures bounds Options.MaxFeatures: feature numbers have 32 bits.
	maxMaxFeatures = 1 << 32
	// maxTextRecord bounds a line, or a record of several lines, in bytes.
	maxTextRecord = 16 << 20

	maxRecordLabels     = 1 << 10
	maxRecordFeatures   = 1 << 16
	maxRecordAttributes = 255
	// maxOtherCells is how many cells of a row may be something else than a dimension.
	maxOtherCells = 1 << 10

	// maxName bounds a name of a feature, a label or an attribute; maxNames and maxNameBytes those of a file.
	maxName      = 1 << 16
	maxNames     = 1 << 22
	maxNameBytes = 128 << 20
)

var (
	errTooLong     = fmt.Errorf("record longer than %d bytes", maxTextRecord)
	errManyLabels  = fmt.Errorf("more than %d labels", maxRecordLabels)
	errManyNumbers = fmt.Errorf("more than %d features", maxRecordFeatures)
	errLongName    = fmt.Errorf("a name longer than %d bytes", maxName)
	errManyNames   = fmt.Errorf("more than %d names, or names of more than %d bytes", maxNames, maxNameBytes)
	errManyValues  = fmt.Errorf("more than %d attributes", maxRecordAttributes)
	errTwoValues   = errors.New("the record has two values of it")
)

// addLabel adds a label that the record does not have yet; an empty text is none.
func (r *Record) addLabel(label string) error {
	switch {
	case label == "" || slices.Contains(r.Labels, label):
		return nil
	case len(r.Labels) == maxRecordLabels:
		return errManyLabels
	}
	r.Labels = append(r.Labels, label)
	return nil
}

// appendFeature adds a feature of a record.
func appendFeature(v *vector.Sparse, f uint32, value float32) error {
	if len(v.Index) == maxRecordFeatures {
		return errManyNumbers
	}
	v.Index, v.Value = append(v.Index, f), append(v.Value, value)
	return nil
}

// setAttribute adds an attribute, which the record must not have yet.
func (r *Record) setAttribute(name string, v any) error {
	if _, twice := r.Attributes[name]; twice {
		return errTwoValues
	}
	if len(r.Attributes) == maxRecordAttributes {
		return errManyValues
	}
	if r.Attributes == nil {
		r.Attributes = map[string]any{}
	}
	r.Attributes[name] = v
	return nil
}

// nameList collects the names of a file.
type nameList struct {
	names []string
	bytes int
}

func (l *nameList) add(name string) error {
	if len(name) > maxName {
		return errLongName
	}
	l.bytes += len(name)
	if len(l.names) == maxNames || l.bytes > maxNameBytes {
		return errManyNames
	}
	l.names = append(l.names, name)
	return nil
}
