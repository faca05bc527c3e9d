package forestindex

import "testing"

// TestNeighborSources: the neighbor lists of few rows are exact by default.
func TestNeighborSources(t *testing.T) {
	if o := (options{}).resolve(1000, 100); o.Source != neighborsExact {
		t.Errorf("1,000 rows: %s", o.Source)
	}
	if o := (options{}).resolve(60_000, 784); o.Source != neighborsApproximate {
		t.Errorf("60,000 rows: %s", o.Source)
	}
	if o := (options{Source: neighborsExact}).resolve(60_000, 784); o.Source != neighborsExact {
		t.Errorf("60,000 rows, exact requested: %s", o.Source)
	}
}
