package salvage

import (
	"encoding/binary"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/vector"
)

// FuzzSearch searches pages of any content: nothing is trusted, and what
// is assumed of it is a catalog.
func FuzzSearch(f *testing.F) {
	key := layout.CatalogKey
	value, err := layout.EncodeCatalog(&layout.Catalog{Object: 9, Collections: []*layout.Collection{
		{ID: 1, Name: "c", Dim: 2, Metric: vector.L2, Rows: 6},
	}})
	if err != nil {
		f.Fatal(err)
	}
	leaf := make([]byte, page.HeaderSize+page.ElementSize, 4096)
	leaf[8], leaf[10] = byte(page.Leaf), 1
	leaf[page.HeaderSize+4], leaf[page.HeaderSize+8] = page.ElementSize, codec.KeySize
	binary.LittleEndian.PutUint32(leaf[page.HeaderSize+12:], uint32(len(value)))
	leaf = append(append(leaf, key[:]...), value...)
	f.Add(leaf)
	w := newFile(f.Context(), nil, nil)
	page.Pairs(leaf, 0, w.searchPair)
	if err := w.assume(); err != nil || len(w.Catalog.Collections) != 1 || w.Catalog.Collections[0].Rows != 6 {
		f.Fatalf("%+v, %v", w.Catalog, err)
	}
	f.Fuzz(func(t *testing.T, leaf []byte) {
		w := newFile(t.Context(), nil, nil)
		page.Pairs(leaf, 0, w.searchPair)
		if err := w.assume(); err != nil {
			return
		}
		for _, c := range w.Catalog.Collections {
			if layout.CheckName(c.Name) != nil || !c.Sparse && (c.Dim < 1 || c.Dim > kind.MaxDim) {
				t.Errorf("%+v", c)
			}
		}
	})
}
