package rows

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/internal/table"
)

// AttributesShown returns attributes as a JSON object, or as text for people: brand=acme price=30.
func AttributesShown(attributes map[string]any, o table.Output) (any, error) {
	if o.InJSON() {
		b, err := dataset.MarshalAttributes(attributes)
		return json.RawMessage(b), err
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		text := fmt.Sprint(attributes[name])
		switch v := attributes[name].(type) {
		case time.Time:
			text = v.Format(time.RFC3339Nano)
		case string:
			text = quoted(v)
		}
		parts = append(parts, quoted(name)+"="+text)
	}
	return strings.Join(parts, " "), nil
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
