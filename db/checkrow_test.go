package db

import (
	"errors"
	"strings"
	"testing"

	"github.com/anndb/anndb/vector"
)

// TestCheckRow: a row that passes can be put, and one that Put would refuse does not pass, also for the
// attributes of rows that have passed before.
func TestCheckRow(t *testing.T) {
	d, ctx := openTemp(t, nil), t.Context()
	schema := Schema{Dim: 1, Metric: vector.L2}
	c, err := d.Create(ctx, "c", schema)
	if err != nil {
		t.Fatal(err)
	}
	row := func(key string, x float32, attributes map[string]any) Row {
		return Row{Key: []byte(key), Vector: []float32{x}, Attributes: attributes}
	}
	first := row("a", 1, map[string]any{"n": 1})
	if err := d.Update(ctx, func(tx *Tx) error { return tx.Collection("c").Put(first) }); err != nil {
		t.Fatal(err)
	}
	stored, err := c.Info()
	if err != nil {
		t.Fatal(err)
	}
	made := CollectionInfo{Name: "c", Schema: schema}
	for _, info := range []*CollectionInfo{&stored, &made} {
		for _, x := range []struct {
			row  Row
			want error
		}{
			{first, nil},
			{row("", 1, nil), ErrInvalid},
			{row(strings.Repeat("k", 513), 1, nil), ErrInvalid},
			{row("b", 1e38, nil), ErrInvalid},
			{Row{Key: []byte("b"), Vector: []float32{1, 2}}, ErrInvalid},
			{row("b", 1, map[string]any{"long": strings.Repeat("x", 513)}), ErrInvalid},
			{row("b", 1, map[string]any{"n": "text", "m": "text"}), ErrInvalid},
			{row("b", 1, map[string]any{"n": 2.5, "m": 1}), nil}, // the row before has decided nothing
			{row("c", 1, map[string]any{"m": "text"}), ErrInvalid},
		} {
			if err := info.CheckRow(x.row); !errors.Is(err, x.want) {
				t.Errorf("key %.10q, attributes %.40v: %v", x.row.Key, x.row.Attributes, err)
			}
		}
	}
	sparse := CollectionInfo{Schema: Schema{Named: true}}
	for _, name := range []string{"", strings.Repeat("w", 513)} {
		r := Row{Key: []byte("a"), Features: []Feature{{name, 1}}}
		if err := sparse.CheckRow(r); !errors.Is(err, ErrInvalid) {
			t.Errorf("feature %.10q: %v", name, err)
		}
	}
	if err := (&CollectionInfo{}).CheckRow(first); !errors.Is(err, ErrInvalid) {
		t.Errorf("a schema without a dimension: %v", err)
	}
}
