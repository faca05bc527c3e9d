package server

import (
	"net/http"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/change"
	"github.com/anndb/anndb/internal/wire"
)

// transact makes all changes of a request in one commit if its conditions hold, otherwise none.
func transact(c *call) error {
	var in wire.Transaction
	if err := c.decode(&in); err != nil {
		return err
	}
	t, err := change.NewTransaction(&in, func(name string) (db.CollectionInfo, error) {
		return c.file.Collection(name).Info()
	})
	if err != nil {
		return err
	}
	var versions []string
	err = c.file.Update(c.ctx, func(tx *db.Tx) (err error) {
		versions, err = t.Apply(tx)
		return err
	})
	if err != nil {
		return err
	}
	c.answer(http.StatusOK, wire.Committed{Versions: versions})
	return nil
}
