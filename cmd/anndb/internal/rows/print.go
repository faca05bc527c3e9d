package rows

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/vector"
)

// printRows writes rows as one table, with the columns that the collection has; values reports whether
// vectors or features, and texts of any length, are among them.
func printRows(a *command.App, info db.CollectionInfo, values bool, list iter.Seq2[db.Row, error]) error {
	columns := []string{"key", "labels"}
	if len(info.Attributes) > 0 {
		columns = append(columns, "attributes")
	}
	if info.Expires {
		columns = append(columns, "expires")
	}
	columns = append(columns, "payload:?")
	if info.Text != nil {
		columns = append(columns, "text")
	}
	short := a.People() && !values
	switch values = values && (info.Text == nil || info.Dim > 0); {
	case values && info.Dim == 0:
		columns = append(columns, "features")
	case values:
		columns = append(columns, "vector")
	}
	out, err := a.Stream(columns...)
	if err != nil {
		return err
	}
	for r, err := range list {
		if err != nil {
			return err
		}
		cells := []any{string(r.Key), r.Labels}
		if len(info.Attributes) > 0 {
			cells = append(cells, Attributes(r.Attributes))
		}
		if info.Expires {
			cells = append(cells, ExpiryShown(r.ExpiresAt))
		}
		cells = append(cells, string(r.Payload))
		if info.Text != nil {
			cells = append(cells, textShown(r.Text, short))
		}
		if values {
			cells = append(cells, valuesShown(&r, info, a.Output))
		}
		if out.Add(cells...); out.Err() != nil {
			return out.Err()
		}
	}
	return out.Close()
}

// shortText is how many characters of a text people see in a list.
const shortText = 80

// textShown is a text, or its beginning on one line.
func textShown(s string, short bool) string {
	if !short {
		return s
	}
	head := strings.Join(strings.Fields(s[:min(len(s), 8*shortText)]), " ")
	return strings.ToValidUTF8(table.Cut(head, shortText), "")
}

// valuesShown is the vector or the features of a row: an array or object in JSON, and otherwise text
// that put and search take.
func valuesShown(r *db.Row, info db.CollectionInfo, o table.Output) any {
	switch dense := info.Dim > 0; {
	case dense && r.Vector == nil: // next to a text
		return nil
	case dense && o.InJSON():
		return r.Vector
	case dense:
		parts := make([]string, len(r.Vector))
		for i, v := range r.Vector {
			parts[i] = float(v)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case o.InJSON():
		features := map[string]float32{}
		for _, f := range namedFeatures(r, info) {
			features[f.Name] = f.Value
		}
		return features
	}
	var parts []string
	for _, f := range namedFeatures(r, info) {
		parts = append(parts, f.Name+"="+float(f.Value))
	}
	return strings.Join(parts, " ")
}

// namedFeatures are the features of a row, those with numbers called as in files.
func namedFeatures(r *db.Row, info db.CollectionInfo) []vector.Feature {
	if info.Named {
		return r.Features
	}
	return numberedFeatures(r.Sparse, command.NumberingOf(info))
}

func numberedFeatures(s vector.Sparse, first uint32) []vector.Feature {
	out := make([]vector.Feature, len(s.Index))
	for i, f := range s.Index {
		out[i] = vector.Feature{Name: fmt.Sprint(f + first), Value: s.Value[i]}
	}
	return out
}

// float is the shortest text of a number.
func float(v float32) string { return strconv.FormatFloat(float64(v), 'g', -1, 32) }

// Attributes are attributes as a JSON object, or as text for people: brand=acme price=30.
type Attributes map[string]any

func (a Attributes) MarshalJSON() ([]byte, error) { return dataset.MarshalAttributes(a) }

func (a Attributes) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		text := fmt.Sprint(a[name])
		switch v := a[name].(type) {
		case time.Time:
			text = v.Format(time.RFC3339Nano)
		case string:
			text = quoted(v)
		}
		parts = append(parts, quoted(name)+"="+text)
	}
	return strings.Join(parts, " ")
}

// quoted quotes a text that is no single word.
func quoted(text string) string {
	if q := strconv.Quote(text); text == "" || len(q) != len(text)+2 || strings.ContainsAny(text, " =") {
		return q
	}
	return text
}

// ExpiryShown returns the time at which a row expires; nothing if it does not.
func ExpiryShown(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.Format(time.RFC3339Nano)
}
