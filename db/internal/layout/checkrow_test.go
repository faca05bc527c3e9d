package layout_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/vector"
)

// TestCheckRow: a row that passes can be put, and one that Put would refuse does not pass, also for the
// attributes of rows that have passed before.
func TestCheckRow(t *testing.T) {
	d, ctx := dbtest.OpenTemp(t, nil), t.Context()
	schema := db.Schema{Dim: 1, Metric: vector.L2}
	c, err := d.Create(ctx, "c", schema)
	dbtest.Must(t, err)
	row := func(key string, x float32, attributes map[string]any) db.Row {
		return db.Row{Key: []byte(key), Vector: []float32{x}, Attributes: attributes}
	}
	first := row("a", 1, map[string]any{"n": 1})
	dbtest.Must(t, d.Update(ctx, func(tx *db.Tx) error { return tx.Collection("c").Put(first) }))
	stored, err := c.Info()
	dbtest.Must(t, err)
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
	sparse := func(value float32, index ...uint32) db.Row {
		return db.Row{Sparse: vector.Sparse{Index: index, Value: slices.Repeat([]float32{value}, len(index))}}
	}
	named := func(value float32, names ...string) (r db.Row) {
		for _, n := range names {
			r.Features = append(r.Features, vector.Feature{Name: n, Value: value})
		}
		return r
	}
	short := sparse(1, 1, 2)
	short.Sparse.Value = short.Sparse.Value[:1]
	both := named(1, "a")
	both.Vector = []float32{1}
	for _, x := range []struct {
		schema db.Schema
		row    db.Row
		want   error
	}{
		{db.Schema{Sparse: true}, sparse(1, 1, 2), nil},
		{db.Schema{Sparse: true}, row("", 1, nil), fail.Kind},
		{db.Schema{Sparse: true}, named(1, "a"), fail.Kind},
		{db.Schema{Named: true}, named(1, "b", "a"), nil},
		{db.Schema{Named: true}, sparse(1, 1), fail.Kind},
		{schema, both, fail.Kind},
		{schema, sparse(1, 1), fail.Kind},
		{db.Schema{Sparse: true}, sparse(1, 2, 1), fail.Features},
		{db.Schema{Sparse: true}, sparse(1, 1, 1), fail.Features},
		{db.Schema{Sparse: true}, sparse(-1, 1), fail.Features},
		{db.Schema{Sparse: true}, sparse(float32(math.NaN()), 1), fail.Features},
		{db.Schema{Sparse: true}, sparse(1, kind.MaxFeature+1), fail.Features},
		{db.Schema{Sparse: true}, short, fail.Features},
		{db.Schema{Named: true}, named(1, "a", "a"), fail.Features},
		{db.Schema{Named: true}, named(-1, "a"), fail.Features},
		{db.Schema{Named: true}, named(1, "a\xff"), fail.Features},
		{db.Schema{Named: true}, named(1, ""), fail.Features},
		{db.Schema{Named: true}, named(1, strings.Repeat("w", 513)), db.ErrInvalid},
	} {
		x.row.Key = []byte("k")
		if err := (&db.CollectionInfo{Schema: x.schema}).CheckRow(x.row); !errors.Is(err, x.want) {
			t.Errorf("%+v %.60v: %v, want %v", x.schema, x.row, err, x.want)
		}
	}
	if err := (&db.CollectionInfo{}).CheckRow(first); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a schema without a dimension: %v", err)
	}
}
