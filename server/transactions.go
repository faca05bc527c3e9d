package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// transact makes all changes of a request in one commit if its conditions hold, otherwise none.
func transact(c *call) error {
	var in wire.Transaction
	if err := c.decode(&in); err != nil {
		return err
	}
	infos := map[string]db.CollectionInfo{}
	parse := func(coll string, o *wire.Operation) (change, error) {
		info, ok := infos[coll]
		if !ok {
			var err error
			if info, err = c.file.Collection(coll).Info(); err != nil {
				return change{}, err
			}
			infos[coll] = info
		}
		ch := change{coll: coll, info: info}
		return ch, ch.parse(o)
	}
	conditions, changes := make([]change, len(in.If)), make([]change, len(in.Operations))
	for i, x := range in.If {
		var err error
		if conditions[i], err = parse(x.Collection, &wire.Operation{Op: wire.Delete, Key: x.Key}); err != nil {
			return fmt.Errorf("condition %d: %w", i, err)
		}
	}
	for i := range in.Operations {
		var err error
		if changes[i], err = parse(in.Operations[i].Collection, &in.Operations[i]); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
	}
	versions := make([]string, len(changes))
	err := c.file.Update(c.ctx, func(tx *db.Tx) error {
		for i := range conditions {
			has, err := conditions[i].version(tx)
			if err != nil && !errors.Is(err, db.ErrNotFound) {
				return fmt.Errorf("condition %d: %w", i, err)
			}
			if has != in.If[i].Version {
				return fmt.Errorf("condition %d: %w: %q, not %.40q", i, wire.ErrChanged, has, in.If[i].Version)
			}
		}
		for i := range changes {
			var err error
			if versions[i], err = changes[i].apply(tx); err != nil {
				return fmt.Errorf("operation %d: %w", i, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.answer(http.StatusOK, wire.Committed{Versions: versions})
	return nil
}

// update replaces the parts of a row that the change names, where null removes a part. The row keeps its
// number unless its vector, features or text change.
func (ch *change) update(tx *db.Tx) error {
	coll := tx.Collection(ch.coll)
	has, err := coll.Get(ch.key)
	if err != nil {
		return err
	}
	line, err := rows.AppendJSON(nil, &has, rows.Schema(&ch.info))
	if err != nil {
		return err
	}
	merged := map[string]json.RawMessage{}
	if err := json.Unmarshal(line, &merged); err != nil {
		return err
	}
	if ch.parts["payload"] != nil || ch.parts["payload_base64"] != nil { // one takes the place of the other
		delete(merged, "payload")
		delete(merged, "payload_base64")
	}
	for name, value := range ch.parts {
		merged[name] = value
	}
	if line, err = json.Marshal(merged); err != nil {
		return err
	}
	row, err := wire.ParseRow(line, &ch.info)
	if err != nil {
		return err
	}
	if _, ok := ch.parts["features"]; ok {
		return coll.Put(row)
	}
	for name := range ch.parts {
		var err error
		switch name {
		case "vector":
			err = coll.SetVector(ch.key, row.Vector)
		case "text":
			err = coll.SetText(ch.key, row.Text)
		case "labels":
			err = coll.SetLabels(ch.key, row.Labels...)
		case "attributes":
			err = coll.SetAttributes(ch.key, row.Attributes)
		case "expires":
			err = coll.SetExpiry(ch.key, row.ExpiresAt)
		case "payload", "payload_base64":
			err = coll.SetPayload(ch.key, row.Payload)
		default:
			err = fmt.Errorf("%w: the field %.40q cannot be changed", wire.ErrJSON, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
