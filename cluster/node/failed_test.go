package node

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
)

// Damage that a read finds ends the work of a replica, which then restores its file. A read that fails for
// the same damage in the meantime does not end that.
func TestDamageIsFoundOnce(t *testing.T) {
	stopped := 0
	r := &replica{n: &Node{}, id: "0", status: shardlog.Following, stop: func(error) { stopped++ }}
	n := &Node{replicas: map[string]*replica{"0": r}}
	q, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.SetPathValue("file", "0")
	damage := fmt.Errorf("block 7: %w", db.ErrCorrupt)
	n.failed(q, damage)
	if stopped != 1 {
		t.Fatalf("stopped %d times by damage", stopped)
	}
	r.status, r.err = shardlog.Restoring, damage
	_, _, err = r.serving()
	n.failed(q, err)
	if stopped != 1 {
		t.Fatalf("stopped %d times, also by %v", stopped, err)
	}
}
