package db

import (
	"encoding/json"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/query/lcif"
)

// The numbers of stored arrays that tests look for, as codec/FORMAT.md has them.
const (
	arrayLabelLabel      uint32 = 1 // of label-matrix
	arrayLabelNames      uint32 = 2
	arrayLabelDeleted    uint32 = 3
	arrayRelabelledRow   uint32 = 4
	arrayRelabelledLabel uint32 = 6

	arraySum           uint32 = 2 // of feature-labels
	arrayPower         uint32 = 5
	arrayFeatureWeight uint32 = 7
	arrayPatchPtr      uint32 = 8
	arrayPatchPower    uint32 = 11
	arrayPowerStart    uint32 = 14
	arrayPatchStart    uint32 = 15
)

// lcifStored has the fields of a label model's manifest that tests look at.
type lcifStored struct {
	Scale    *lcif.Scaling
	Base     uint64
	Segments []lcifSegment
}

type lcifSegment struct {
	Object uint64
	Dead   int
}

// lcifDetail returns the detail of a label model's manifest.
func lcifDetail(t rapid.TB, m *kind.Manifest) (d lcifStored) {
	t.Helper()
	must(t, json.Unmarshal(m.Detail, &d))
	return d
}
