package server

import (
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/change"
	"github.com/anndb/anndb/internal/wire"
)

// transact makes all changes of a request in one commit if its conditions hold, otherwise none.
func transact(c *call, in *wire.Transaction) (any, error) {
	t, err := change.NewTransaction(in, func(name string) (db.CollectionInfo, error) {
		return c.file.Collection(name).Info()
	})
	if err != nil {
		return nil, err
	}
	var out wire.Committed
	err = c.file.Update(c.ctx, func(tx *db.Tx) (err error) {
		out.Versions, err = t.Apply(tx)
		return err
	})
	return out, err
}
