package group_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
)

// predicted returns predictions as text.
func predicted(p *db.Predictions) string {
	var s strings.Builder
	for _, l := range p.Labels {
		fmt.Fprintf(&s, "%s %x %t\n", l.Label, math.Float32bits(l.Score), l.Predicted)
	}
	st := &p.Stats
	fmt.Fprintf(&s, "%d neighbors, %d and %d labels, %t, %v",
		st.Neighbors, st.Instance, st.Feature, st.NoEvidence, st.Unknown)
	return s.String()
}

// TestPredict: label models of parts predict what one model of all rows predicts, bit for bit, with deleted,
// relabelled and fresh rows.
func TestPredict(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		b := newBed(t, dir)
		defer b.close()
		p := lcif.Params{
			K: 1 + b.rng.IntN(12), Alpha: []float64{0, 2, 0.5}[b.rng.IntN(3)],
			Beta: []float64{0, 2, 1.7}[b.rng.IntN(3)], Lambda: []float64{0, 0.3, 1}[b.rng.IntN(3)],
		}
		if b.rng.IntN(2) > 0 {
			p.Thresholds = &labels.Thresholds{Single: 0.3, KeepTop: b.rng.IntN(2) == 0}
		}
		o := &index.LCIF{Params: &p, Weight: "none"}
		both := b.s.Dim > 0 && (b.s.Sparse || b.s.Text != nil)
		if both && b.rng.IntN(2) > 0 {
			o.Neighbors = "vector"
		}
		var live []db.Collection
		for _, c := range append(b.parts, b.one) {
			if n, err := c.Count(t.Context(), nil); err == nil && n == 0 {
				continue
			}
			_, err := c.Build(t.Context(), "labels", o, nil)
			dbtest.Must(t, err)
			live = append(live, c)
		}
		if len(live) == 0 {
			return
		}
		if n, err := b.parts[len(b.parts)-1].Count(t.Context(), nil); err == nil && n > 0 {
			b.fill(len(b.parts)-1, b.rng.IntN(20))
		}
		if b.s.Sparse || b.s.Text != nil {
			// Until a model has the rows that were written since, it does not know features that only they have.
			for _, d := range b.files {
				_, err := d.Maintain(t.Context(), 0, nil)
				dbtest.Must(t, err)
			}
		}
		for part := range b.parts {
			for range b.rng.IntN(4) {
				key := []byte(b.keys[b.rng.IntN(len(b.keys))])
				if _, err := b.parts[part].Get(key); err == nil {
					b.each(part, func(c db.TxCollection) error { return c.SetLabels(key, "label1", "new") })
				}
			}
		}
		g := b.group()
		defer g.Release()
		for i := range 20 {
			q := b.query(1)
			o := db.PredictOptions{Index: "labels", Params: &p, Top: 2 * b.rng.IntN(2), Set: b.rng.IntN(2) > 0}
			if b.rng.IntN(4) == 0 {
				o.Where = filter.Range("n", 1, 3)
			}
			if i%5 == 1 {
				q = db.Query{Key: []byte(b.keys[b.rng.IntN(len(b.keys))])}
			}
			want, wantErr := b.one.Predict(t.Context(), q, &o)
			if len(b.parts) > 1 && i%2 > 0 {
				o.Params = nil
			}
			got, err := g.Predict(t.Context(), q, &o)
			if (err != nil) != (wantErr != nil) {
				t.Fatalf("%+v %+v: %v, want %v", q, o, err, wantErr)
			}
			if got, want := predicted(&got), predicted(&want); err == nil && got != want {
				t.Fatalf("%+v %+v %+v\ngot\n%s\nwant\n%s", q, o, p, got, want)
			}
		}
	})
}
