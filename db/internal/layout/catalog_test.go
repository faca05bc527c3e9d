package layout

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/vector"
)

// Every decoder, on arbitrary bytes: it must say no by name, or yes to something that it would
// itself write.

func FuzzCatalog(f *testing.F) {
	for _, c := range []*Catalog{
		{Format: 1},
		{Format: 1, Object: 3, Collections: []*Collection{
			{ID: 1, Name: "a", Dim: 3, Metric: vector.L2, Rows: 7, Live: 5, Indexes: []IndexRef{{Name: "x", Object: 2}}},
			{ID: 3, Name: "b", Dim: kind.MaxDim, Metric: vector.Cosine, Storage: StorageFloat32},
		}},
	} {
		data, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"Format":2}`))
	f.Add([]byte(`{"Format":1,"Object":1,"Collections":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := DecodeCatalog(data)
		if err != nil {
			if !errors.Is(err, fail.ErrCorrupt) && !errors.Is(err, fail.NewerFormat) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		for _, x := range c.Collections {
			if x.Sealed() > x.Rows || x.Live > x.Rows {
				t.Fatalf("impossible collection %+v", x)
			}
			if found, err := c.Find(x.Name); found != x || err != nil || c.ByID(x.ID) != x {
				t.Fatalf("collection %q is not found", x.Name)
			}
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := DecodeCatalog(again); err != nil || !reflect.DeepEqual(c, d) {
			t.Fatalf("%s decodes to another catalog: %v", again, err)
		}
	})
}

// TestCatalogObjects: object numbers that no database reaches are refused.
func TestCatalogObjects(t *testing.T) {
	cat := Catalog{Format: catalogFormat, Object: 1 << 62, Collections: []*Collection{{ID: 1 << 61, Name: "a", Dim: 1, Metric: vector.L2}}}
	if err := cat.validate(); !errors.Is(err, fail.ErrCorrupt) {
		t.Errorf("object numbers of 62 bits: %v", err)
	}
}
