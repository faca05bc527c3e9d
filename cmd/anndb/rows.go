package main

import "github.com/anndb/anndb/db"

// scan calls f for every live row of a collection that passes a filter and stops where the
// caller interrupts.
func scan(a *app, s *db.Snapshot, coll string, filter *db.Filter, f func(*db.Row) error) error {
	for row, err := range s.Collection(coll).Rows(a.ctx, filter) {
		if err == nil {
			err = f(&row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
