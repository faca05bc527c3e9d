package expire_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
)

// TestMany: maintenance deletes thousands of rows that have expired by one step, but not one that has replaced
// an expired row.
func TestMany(t *testing.T) {
	d, now := dbtest.OpenTemp(t, nil), time.Now()
	dbtest.Must(t, dbtest.Create(t.Context(), d, "c", db.Schema{Dim: 1}))
	row := func(i int, at time.Time) db.Row {
		return db.Row{Key: fmt.Append(nil, i), Vector: []float32{float32(i)}, ExpiresAt: at}
	}
	var rows []db.Row
	for i := range 9000 {
		rows = append(rows, row(i, []time.Time{now.Add(-time.Second), now.Add(time.Hour), {}}[i%3]))
	}
	dbtest.Must(t, dbtest.Put(d, "c", rows...))
	dbtest.Must(t, dbtest.Put(d, "c", row(3, now.Add(time.Hour))))
	steps, err := d.Maintain(t.Context(), 0, nil)
	if err != nil || len(steps) != 1 || steps[0].Action != "expire" || steps[0].Rows != 2999 {
		t.Fatalf("steps %+v, %v", steps, err)
	}
	if n, err := d.Collection("c").Count(t.Context(), nil); err != nil || n != 6001 {
		t.Fatal(n, err)
	}
	if r, err := d.Collection("c").Get([]byte("3")); err != nil || !r.ExpiresAt.Equal(now.Add(time.Hour)) {
		t.Fatal(r, err)
	}
	dbtest.Must(t, dbtest.Check(d))
}
