package rows

import (
	"maps"
	"slices"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/db"
)

// Update changes parts of a row.
type Update struct {
	command.InCollection
	Key    string  `arg:""`
	Text   *string `placeholder:"TEXT"`
	Vector string  `placeholder:"X,…"`
	partFlags
	AddLabel        []string `placeholder:"LABEL,…" without:"label"`
	RemoveLabel     []string `placeholder:"LABEL,…" without:"label"`
	RemoveAttribute []string `placeholder:"NAME,…"`
}

func (c *Update) Run(a *command.App) error {
	if c.Label == nil && c.AddLabel == nil && c.RemoveLabel == nil && c.Attribute == nil &&
		c.RemoveAttribute == nil && c.Payload == nil && c.Expires == "" && c.Text == nil && c.Vector == "" {
		return command.Usagef("say what to change: --label, --add-label, --remove-label, --attribute, " +
			"--remove-attribute, --payload, --expires, --text or --vector")
	}
	attributes, err := c.attributes()
	if err != nil {
		return err
	}
	expiry, err := c.expiry(time.Now())
	if err != nil {
		return err
	}
	return c.With(a, false, func(d *db.DB) error {
		coll := d.Collection(c.Collection)
		info, err := coll.Info()
		if err != nil {
			return err
		}
		var vector []float32
		if c.Vector != "" {
			if vector, err = input.VectorOf(c.Vector, info); err != nil {
				return err
			}
		}
		err = d.Update(a.Ctx, func(tx *db.Tx) error {
			return c.change(tx.Collection(c.Collection), attributes, expiry, vector)
		})
		if err != nil {
			return err
		}
		if a.Flags.Quiet {
			return nil
		}
		row, err := coll.Get([]byte(c.Key))
		if err != nil {
			return err
		}
		return printRows(a, info, false, func(yield func(db.Row, error) bool) { yield(row, nil) })
	})
}

// change makes the changes in a transaction.
func (c *Update) change(
	rows db.TxCollection, attributes map[string]any, expiry time.Time, vector []float32,
) error {
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
		if err := rows.SetExpiry(key, expiry); err != nil {
			return err
		}
	}
	if c.Text != nil {
		if err := rows.SetText(key, *c.Text); err != nil {
			return err
		}
	}
	if vector != nil {
		return rows.SetVector(key, vector)
	}
	return nil
}
