package db_test

import (
	"testing"

	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/vector"
)

// bed is a dbtest.Bed with more that the tests of this package compare.
type bed struct{ *dbtest.Bed }

func newBed(t testing.TB, metric vector.Metric, dim int) *bed {
	t.Helper()
	return &bed{dbtest.NewBed(t, metric, dim)}
}
