package db

import (
	"encoding/json"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/query/lcif"
)

// storedScale returns the scale of the columns in a label model's manifest, nil if it has none.
func storedScale(t rapid.TB, m *kind.Manifest) *lcif.Scaling {
	t.Helper()
	var d struct{ Scale *lcif.Scaling }
	must(t, json.Unmarshal(m.Segments[0].Detail, &d))
	return d.Scale
}
