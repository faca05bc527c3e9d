package layout_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/vector"
)

// TestCheckRow: a row that passes can be put, and one that Put would refuse does not pass, also for the
// attributes of rows that have passed before.
func TestCheckRow(t *testing.T) {
	d, ctx := dbtest.OpenTemp(t, nil), t.Context()
	schema := db.Schema{Dim: 1, Metric: vector.L2}
	c, err := d.Create(ctx, "c", schema)
	if err != nil {
		t.Fatal(err)
	}
	row := func(key string, x float32, attributes map[string]any) db.Row {
		return db.Row{Key: []byte(key), Vector: []float32{x}, Attributes: attributes}
	}
	first := row("a", 1, map[string]any{"n": 1})
	if err := d.Update(ctx, func(tx *db.Tx) error { return tx.Collection("c").Put(first) }); err != nil {
		t.Fatal(err)
	}
	stored, err := c.Info()
	if err != nil {
		t.Fatal(err)
	}
	made := db.CollectionInfo{Name: "c", Schema: schema}
	for _, info := range []*db.CollectionInfo{&stored, &made} {
		for _, x := range []struct {
			row  db.Row
			want error
		}{
			{first, nil},
			{row("", 1, nil), db.ErrInvalid},
			{row(strings.Repeat("k", 513), 1, nil), db.ErrInvalid},
			{row("b", 1e38, nil), db.ErrInvalid},
			{db.Row{Key: []byte("b"), Vector: []float32{1, 2}}, db.ErrInvalid},
			{row("b", 1, map[string]any{"long": strings.Repeat("x", 513)}), db.ErrInvalid},
			{row("b", 1, map[string]any{"n": "text", "m": "text"}), db.ErrInvalid},
			{row("b", 1, map[string]any{"n": 2.5, "m": 1}), nil}, // the row before has decided nothing
			{row("c", 1, map[string]any{"m": "text"}), db.ErrInvalid},
		} {
			if err := info.CheckRow(x.row); !errors.Is(err, x.want) {
				t.Errorf("key %.10q, attributes %.40v: %v", x.row.Key, x.row.Attributes, err)
			}
		}
	}
	sparse := db.CollectionInfo{Schema: db.Schema{Named: true}}
	for _, name := range []string{"", strings.Repeat("w", 513)} {
		r := db.Row{Key: []byte("a"), Features: []db.Feature{{Name: name, Value: 1}}}
		if err := sparse.CheckRow(r); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("feature %.10q: %v", name, err)
		}
	}
	if err := (&db.CollectionInfo{}).CheckRow(first); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a schema without a dimension: %v", err)
	}
}
