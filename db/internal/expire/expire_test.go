package expire

import (
	"testing"
	"time"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/db/internal/txntest"
)

// TestStep: rows that have expired are deleted, and no others.
func TestStep(t *testing.T) {
	m, path := txntest.Open(t)
	txntest.Put(t, m, "sparse", 0, 3) // never expire
	if s, err := Step(t.Context(), m); s != nil || err != nil {
		t.Fatalf("no row can expire: %+v, %v", s, err)
	}
	now := time.Now()
	err := m.Update(t.Context(), func(x *txn.Tx) error {
		for i, at := range []time.Time{now.Add(-time.Hour), now.Add(time.Hour), {}, now.Add(-time.Second)} {
			err := x.Add("dense", func(*layout.Collection) (o apply.Op, err error) {
				o.Row = txntest.Row("dense", i)
				o.Row.Attributes, err = attribute.Set(nil, at)
				return o, err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	txntest.Must(t, err)
	s, err := Step(t.Context(), m)
	if err != nil || s == nil || s.Collection != "dense" || s.Action != "expire" || s.Rows != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	if rows := txntest.Rows(t, m, "dense"); len(rows) != 2 || rows[1] == "" || rows[2] == "" {
		t.Errorf("left are %v", rows)
	}
	if s, err := Step(t.Context(), m); s != nil || err != nil {
		t.Errorf("a second step: %+v, %v", s, err)
	}
	txntest.Check(t, m, path)
}
