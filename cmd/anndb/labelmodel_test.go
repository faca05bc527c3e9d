package main

import (
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/query"
)

func TestSparseSettingNamesAll(t *testing.T) {
	info := db.IndexInfo{Options: db.BuildOptions{Kind: db.KindLCIF, LCIF: db.LCIFOptions{
		Weight: db.WeightStandard, Neighbors: "main", Params: &query.LCIFParams{K: 3, Lambda: 1},
	}}}
	const want = "standard, neighbours by main, λ=1 k=3 α=1, the best label"
	if got := sparseSetting(info); got != want {
		t.Errorf("setting %q, want %q", got, want)
	}
}
