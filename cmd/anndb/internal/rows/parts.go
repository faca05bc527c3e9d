package rows

import (
	"fmt"
	"strings"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/dataset"
)

// partFlags are the parts of a row beside its key and vector.
type partFlags struct {
	Label     []string `placeholder:"LABEL,…"`
	Attribute []string `placeholder:"NAME[:TYPE]=VALUE" sep:"none"`
	Payload   *string  `placeholder:"TEXT"`
	Expires   string   `placeholder:"TIME"`
}

// attributes are the values of the flag.
func (f partFlags) attributes() (map[string]any, error) {
	out := map[string]any{}
	for _, text := range f.Attribute {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, command.Usagef("--attribute %q: want NAME=VALUE", text)
		}
		at, err := dataset.ParseAttribute(name)
		if err != nil {
			return nil, fmt.Errorf("--attribute: %w", err)
		}
		v, err := at.Type.Parse(value)
		switch {
		case err != nil:
			return nil, command.Usagef("--attribute %s: %v", at.Name, err)
		case v == nil && at.Type > dataset.StringType:
			return nil, command.Usagef("--attribute %s has no value", at.Name)
		case v == nil:
			v = ""
		}
		if _, twice := out[at.Name]; twice {
			return nil, command.Usagef("--attribute %s is given twice", at.Name)
		}
		out[at.Name] = v
	}
	return out, nil
}

// expiry is the time of the flag; zero for never.
func (f partFlags) expiry(now time.Time) (time.Time, error) {
	if f.Expires == "" || f.Expires == "never" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(f.Expires); err == nil && d > 0 {
		return now.Add(d).UTC(), nil
	}
	v, err := dataset.TimeType.Parse(f.Expires)
	at, ok := v.(time.Time)
	if err != nil || !ok {
		return at, command.Usagef("--expires %q is neither a time such as 2030-01-02T15:04:05Z "+
			"nor a duration such as 48h", f.Expires)
	}
	return at, nil
}
