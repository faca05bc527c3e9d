package forestindex

import (
	"errors"
	"testing"

	"github.com/anndb/anndb/db/internal/fail"
)

// TestNeighborSources: the neighbor lists of few rows are exact by default, and options name a source
// that exists.
func TestNeighborSources(t *testing.T) {
	if o := (Options{}).resolve(1000, 100); o.Labels != NeighborsExact {
		t.Errorf("1,000 rows: %s", o.Labels)
	}
	if o := (Options{}).resolve(60_000, 784); o.Labels != NeighborsApproximate {
		t.Errorf("60,000 rows: %s", o.Labels)
	}
	if o := (Options{Labels: NeighborsExact}).resolve(60_000, 784); o.Labels != NeighborsExact {
		t.Errorf("60,000 rows, exact asked for: %s", o.Labels)
	}
	o := (Options{Labels: "guessed"}).resolve(1000, 100)
	if err := o.validate(); !errors.Is(err, fail.Option) {
		t.Errorf("unknown source: %v", err)
	}
}
