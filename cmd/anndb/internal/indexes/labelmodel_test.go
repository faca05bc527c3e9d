package indexes

import (
	"testing"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/query/lcif"
)

func TestSparseSettingNamesAll(t *testing.T) {
	info := index.Info{Options: &index.LCIF{
		Weight: "standard", Neighbors: "main", Params: &lcif.Params{K: 3, Lambda: 1},
	}}
	const want = "standard, neighbours by main, λ=1 k=3 α=1, the best label"
	if got := SparseSetting(info); got != want {
		t.Errorf("setting %q, want %q", got, want)
	}
}
