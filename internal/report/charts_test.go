package report

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/plot"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/text"
)

// filled returns a collection with rows.
func filled(t *testing.T, s db.Schema, rows ...db.Row) db.Collection {
	t.Helper()
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "c.anndb"), nil)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	c, err := d.Create(t.Context(), "c", s)
	must(t, err)
	must(t, d.Update(t.Context(), func(tx *db.Tx) error {
		for _, r := range rows {
			if err := tx.Collection("c").Put(r); err != nil {
				return err
			}
		}
		return nil
	}))
	return c
}

func drawable(t *testing.T, c *plot.Chart) {
	t.Helper()
	var b bytes.Buffer
	must(t, c.Write(&b))
}

// TestMap checks that rows lie along the line that they are on, coloured by their labels.
func TestMap(t *testing.T) {
	var rows []db.Row
	for i := range 40 {
		x := float32(i)
		rows = append(rows, db.Row{Key: fmt.Append(nil, i), Vector: []float32{3 * x, 4 * x, 7},
			Labels: []string{[]string{"left", "right"}[i/20]}})
	}
	rows[7].Labels = nil
	rows = append(rows, db.Row{Key: []byte("without a vector"), Text: "only"})
	c := filled(t, db.Schema{Dim: 3, Text: &text.Schema{}}, rows...)
	mapped := func(c db.Collection) *plot.Chart {
		info, err := c.Info()
		must(t, err)
		chart, err := mapOf(t.Context(), c, info)
		must(t, err)
		return chart
	}
	chart := mapped(c)
	var names []string
	for _, s := range chart.Series {
		names = append(names, fmt.Sprint(s.Name, " ", len(s.Points)))
	}
	if diff := cmp.Diff([]string{"others 1", "left 19", "right 20"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	a, b := chart.Series[2].Points[0], chart.Series[2].Points[19]
	if d := b.X - a.X; d*d < 94*94 || d*d > 96*96 { // 19 steps of length 5
		t.Errorf("the ends of a line of length 95 are %g apart", d)
	}
	drawable(t, chart)
	if mapped(filled(t, db.Schema{Dim: 2})) != nil {
		t.Error("a map of no rows")
	}
}

// TestDefault: the setting is the fastest that promises the recall, not the fastest that had it.
func TestDefault(t *testing.T) {
	points := []query.Point{{Recall: 0.955, Micros: 10}, {Recall: 0.97, Micros: 20}}
	curve := &query.Curve{Queries: 99, Points: points}
	recall, micros := Default(index.Info{Record: index.Record{Curve: curve}})
	if recall != 0.97 || micros != 20 {
		t.Errorf("recall %g in %g µs", recall, micros)
	}
	curve.Sampled, curve.Points[1].Users = 100, 0.9
	if recall, micros := Default(index.Info{Record: index.Record{Curve: curve}}); recall != 0 || micros != 0 {
		t.Errorf("of users: recall %g in %g µs", recall, micros)
	}
}

func TestRecall(t *testing.T) {
	if recallOf("c", index.Info{Record: index.Record{Name: "untuned"}}) != nil {
		t.Error("a chart of an index without a curve")
	}
	points := []query.Point{{Recall: 0.9, Micros: 10}, {Recall: 0.99, Micros: 20}}
	curve := &query.Curve{K: 10, Points: points, Depths: []query.Curve{{K: 1, Points: points}}}
	info := func(name string) index.Info {
		return index.Info{Record: index.Record{Name: name, Curve: curve}}
	}
	chart := recallOf("c", info("a"), info("b"))
	var names []string
	for _, s := range chart.Series {
		names = append(names, s.Name)
	}
	if diff := cmp.Diff([]string{"a, k = 1", "a, k = 10", "b, k = 1", "b, k = 10"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	drawable(t, chart)
}

func TestReliability(t *testing.T) {
	plain := index.Info{Record: index.Record{Name: "plain"}}
	if reliabilityOf("c", calibrated([]index.Info{plain})) != nil {
		t.Error("a chart without probabilities")
	}
	c := &labels.Calibration{}
	for range 3 {
		c.Top.Add(0.25, false)
	}
	c.Top.Add(0.25, true)
	models := calibrated([]index.Info{plain, {Record: index.Record{Name: "a", Calibration: c}}})
	chart := reliabilityOf("c", models)
	at := plot.Point{X: 0.25, Y: 0.25}
	want := plot.Series{Name: "a", Points: []plot.Point{at}, Notes: map[plot.Point]string{at: "4"}}
	if len(chart.Series) != 2 || !cmp.Equal(chart.Series[1], want) ||
		chart.Title != "c: best labels, expected calibration error 0.000" {
		t.Errorf("%+v", chart)
	}
	drawable(t, chart)
	chart = reliabilityOf("c", append(models, models...))
	if len(chart.Series) != 3 || chart.Series[2].Name != "a, expected error 0.000" || chart.Title != "c: best labels" {
		t.Errorf("%+v", chart)
	}
	drawable(t, chart)
}
