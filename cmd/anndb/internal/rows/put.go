package rows

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
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
		return at, command.Usagef("--expires %q is neither a time such as 2030-01-02T15:04:05Z nor a duration such as 48h",
			f.Expires)
	}
	return at, nil
}

// Put writes one row.
type Put struct {
	command.InCollection
	Key    string   `arg:""`
	Values []string `arg:"" optional:""`
	partFlags
	New bool
}

func (c *Put) Run(a *command.App) error {
	row := db.Row{Key: []byte(c.Key), Labels: c.Label}
	var err error
	if row.Attributes, err = c.attributes(); err != nil {
		return err
	}
	if row.ExpiresAt, err = c.expiry(time.Now()); err != nil {
		return err
	}
	if c.Payload != nil {
		row.Payload = []byte(*c.Payload)
	}
	return c.With(a, false, func(d *db.DB) error {
		info, err := command.InfoOf(d, c.Collection)
		if err != nil {
			return err
		}
		q, err := input.Literal(c.Values, info, command.NumberingOf(info))
		if err != nil {
			return err
		}
		row.Vector, row.Sparse, row.Features = q.Vector, q.Sparse, q.Features
		replaced := false
		err = d.Update(a.Ctx, func(tx *db.Tx) (err error) {
			rows := tx.Collection(c.Collection)
			if replaced, err = rows.Has(row.Key); err != nil {
				return err
			}
			if c.New {
				return rows.Insert(row)
			}
			return rows.Put(row)
		})
		if err != nil {
			return err
		}
		t := table.New("collection", "key", "replaced")
		t.Add(c.Collection, c.Key, replaced)
		return a.Done(t)
	})
}

// Update changes parts of a row.
type Update struct {
	command.InCollection
	Key string `arg:""`
	partFlags
	AddLabel        []string `placeholder:"LABEL,…"`
	RemoveLabel     []string `placeholder:"LABEL,…"`
	RemoveAttribute []string `placeholder:"NAME,…"`
}

// check refuses flags that make no sense.
func (c *Update) check() error {
	more := len(c.AddLabel)+len(c.RemoveLabel) > 0
	switch {
	case c.Label != nil && more:
		return command.Usagef("--label sets all labels of the row: it excludes --add-label and --remove-label")
	case c.Label == nil && !more && c.Attribute == nil && c.RemoveAttribute == nil && c.Payload == nil &&
		c.Expires == "":
		return command.Usagef("say what to change: --label, --add-label, --remove-label, --attribute, " +
			"--remove-attribute, --payload or --expires")
	}
	return nil
}

func (c *Update) Run(a *command.App) error {
	attributes, err := c.attributes()
	if err = errors.Join(c.check(), err); err != nil {
		return err
	}
	expiry, err := c.expiry(time.Now())
	if err != nil {
		return err
	}
	return c.With(a, false, func(d *db.DB) error {
		err := d.Update(a.Ctx, func(tx *db.Tx) error {
			return c.change(tx.Collection(c.Collection), attributes, expiry)
		})
		if err != nil {
			return err
		}
		if a.Flags.Quiet {
			return nil
		}
		return c.show(a, d)
	})
}

// change makes the changes in a transaction.
func (c *Update) change(rows db.TxCollection, attributes map[string]any, expiry time.Time) error {
	key := []byte(c.Key)
	row, err := rows.Get(key)
	if err != nil {
		return err
	}
	if c.Label != nil || len(c.AddLabel)+len(c.RemoveLabel) > 0 {
		labels := c.Label
		if labels == nil {
			labels = slices.DeleteFunc(append(row.Labels, c.AddLabel...), func(l string) bool {
				return slices.Contains(c.RemoveLabel, l)
			})
		}
		labels = slices.DeleteFunc(labels, func(l string) bool { return l == "" }) // --label= removes all
		if err := rows.SetLabels(key, labels...); err != nil {
			return err
		}
	}
	if len(attributes)+len(c.RemoveAttribute) > 0 {
		all := map[string]any{}
		maps.Copy(all, row.Attributes)
		maps.Copy(all, attributes)
		for _, name := range c.RemoveAttribute {
			delete(all, name)
		}
		if err := rows.SetAttributes(key, all); err != nil {
			return err
		}
	}
	if c.Payload != nil {
		if err := rows.SetPayload(key, []byte(*c.Payload)); err != nil {
			return err
		}
	}
	if c.Expires != "" {
		return rows.SetExpiry(key, expiry)
	}
	return nil
}

// show shows the row as it is now.
func (c *Update) show(a *command.App, d *db.DB) error {
	return d.View(func(s *db.Snapshot) error {
		row, err := s.Collection(c.Collection).Get([]byte(c.Key))
		if err != nil {
			return err
		}
		info, err := s.Collection(c.Collection).Info()
		if err != nil {
			return err
		}
		return printRows(a, info, false, func(add func(*db.Row) error) error { return add(&row) })
	})
}
