package query

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// hidden is a source that is not one for batches.
type hidden struct{ NeighborSource }

// Over dense rows the tuner measures what predictions from a forest do, and
// what else there is works query by query, too.
func TestTuneOverForest(t *testing.T) {
	ctx := context.Background()
	m := clustered(360, 10, 9)
	const n, l = 300, 12
	view := build(t, &matrix{m.data[:n*m.d], n, m.d}, spec{metric: vector.L2, forest: forest.Params{Kind: forest.RP, Trees: 6, Depth: 4, Natural: true, Seed: 1}, labelsK: 20})
	sets := make([][]uint32, m.n)
	q := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for i := range sets {
		sets[i] = []uint32{uint32(i % l)}
		if i >= n {
			q.Append(sparse(m.row(i)))
		}
	}
	q.Cols = m.d
	train, err := labels.FromSets(sets[:n], l)
	if err != nil {
		t.Fatal(err)
	}
	truth, err := labels.FromSets(sets[n:], l)
	if err != nil {
		t.Fatal(err)
	}
	v := &LCIFView{Features: m.d, Labels: train, Neighbors: NewForestNeighbors(view, Params{Method: Flat}, nil)}
	held := &LCIFHeldOut{Parts: []LCIFPart{{View: v, Queries: q, Truth: truth}}, Train: train}
	c, err := TuneLCIF(ctx, func(context.Context, int) (*LCIFHeldOut, error) { return held, nil }, LCIFTuneOptions{
		Objectives: []LCIFObjective{Accuracy}, Variants: []LCIFVariant{InstanceOnly}, Ks: []int{1, 5, 20}, Workers: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	choice := c.Choices[0]
	want, th := plain(t, held, choice.Point.LCIFSetting)
	if !equalMeasures(choice.Point.LCIFMeasures, want) || !reflect.DeepEqual(choice.Params.Thresholds, th) || want.Accuracy < 0.8 {
		t.Errorf("chosen for %+v, predictions do %+v", choice.Point, want)
	}
}

func TestBatchesAreSinglePredictions(t *testing.T) {
	ctx := context.Background()
	f, q := topicFixture(t, 300)
	single := *f.view
	single.Neighbors = hidden{f.view.Neighbors}
	weighted := labels.SelectRows(q, []int{0, 1, 2, 3, 4, 5, 6, 7})
	weighted.Append(vector.Sparse{}) // a query without features
	for _, p := range []LCIFParams{{K: 5, Lambda: 1, Top: 4}, {K: 40, Alpha: 2, Lambda: 0.5, SecondOrder: 0.2, Top: 4}, {Top: 4}} {
		want, err := PredictBatch(ctx, &single, weighted, &p, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := PredictBatch(ctx, f.view, weighted, &p, 2, nil)
		if err != nil || !slices.EqualFunc(got, want, slices.Equal[[]labels.Ranked]) || len(got[8]) != 0 {
			t.Errorf("%+v: batches differ from single predictions, %v", p, err)
		}
	}
	a, err := NeighborGraph(ctx, f.view.Neighbors, f.rows, 4, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NeighborGraph(ctx, single.Neighbors, f.rows, 4, 1, nil)
	if err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("graphs differ, %v", err)
	}
}
