package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/vector"
)

// scenario restricts the rows that a query may find.
type scenario struct {
	name     string
	restrict func(q []float32, o *db.SearchOptions) error
	text     func(i int) string // the text of query i, nil if there is none
}

func everything([]float32, *db.SearchOptions) error { return nil }

// scenarios returns all scenarios over the complete collection.
func (b *bench) scenarios() []scenario {
	out := []scenario{{name: "all", restrict: everything}}
	for _, percent := range []float64{50, 10, 1, 0.1, 0.01} {
		out = append(out, scenario{name: fmt.Sprintf("random %g %%", percent), restrict: b.random(percent / 100)})
	}
	out = append(out,
		scenario{name: "own label", restrict: func(q []float32, o *db.SearchOptions) error {
			o.Where = filter.HasLabel(className(b.class(q)))
			return nil
		}},
		scenario{name: "another label", restrict: func(q []float32, o *db.SearchOptions) error {
			o.Where = filter.HasLabel(className((b.class(q) + 1) % classes))
			return nil
		}},
		scenario{name: "price below 10", restrict: func(_ []float32, o *db.SearchOptions) error {
			o.Where = filter.Range("price", nil, 10)
			return nil
		}},
		scenario{name: "label and price", restrict: func(q []float32, o *db.SearchOptions) error {
			o.Where = filter.And(filter.HasLabel(className(b.class(q))), filter.Range("price", 20, 70))
			return nil
		}})
	for _, x := range []struct {
		name   string
		lo, hi float64
	}{{"nearest half", 0, 0.5}, {"nearest tenth", 0, 0.1}, {"farthest half", 0.5, 1}, {"farthest tenth", 0.9, 1}} {
		out = append(out, scenario{name: x.name, restrict: func(q []float32, o *db.SearchOptions) (err error) {
			o.Where, err = b.rows.RowFilter(b.between(q, x.lo, x.hi))
			return err
		}})
	}
	return out
}

// random restricts all queries to the same random share of the rows.
func (b *bench) random(share float64) func([]float32, *db.SearchOptions) error {
	r := rand.New(rand.NewPCG(1, 2))
	rows := roaring.New()
	for i := range b.set.Rows() {
		if r.Float64() < share {
			rows.Add(uint32(i))
		}
	}
	return func(_ []float32, o *db.SearchOptions) (err error) {
		o.Where, err = b.rows.RowFilter(rows)
		return err
	}
}

// distance orders rows as the metric of the set does. Rows compared by cosine have unit length.
func (b *bench) distance(x, y []float32) float32 {
	if b.set.Metric == vector.InnerProduct {
		return -vector.Dot(x, y)
	}
	return vector.L2Squared(x, y)
}

// between returns the rows whose distance to the query has a rank between two shares of all.
// Rows keep their order of loading, so row i has the number i.
func (b *bench) between(q []float32, lo, hi float64) *roaring.Bitmap {
	n := b.set.Rows()
	near := make([]vector.Neighbor, n)
	for i := range near {
		near[i] = vector.Neighbor{ID: uint32(i), Distance: b.distance(q, b.row(i))}
	}
	slices.SortFunc(near, func(x, y vector.Neighbor) int { return cmp.Compare(x.Distance, y.Distance) })
	rows := roaring.New()
	for _, x := range near[int(lo*float64(n)):int(hi*float64(n))] {
		rows.Add(x.ID)
	}
	return rows
}
