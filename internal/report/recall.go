package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/plot"
	"github.com/anndb/anndb/query"
)

// recallOf returns the measured recall and time of the settings of tuned indexes of a collection, a
// curve for each index and number of neighbors; nil if none is tuned.
func recallOf(coll string, indexes ...index.Info) *plot.Chart {
	c := plot.RecallTime(coll+": settings of the tuner on held-out rows", 0)
	tuned := slices.DeleteFunc(slices.Clone(indexes), func(i index.Info) bool { return i.Curve == nil })
	for _, i := range tuned {
		curves := append([]query.Curve{*i.Curve}, i.Curve.Depths...)
		slices.SortFunc(curves, func(a, b query.Curve) int { return cmp.Compare(a.K, b.K) })
		for _, curve := range curves {
			s := plot.Series{Name: fmt.Sprintf("k = %d", curve.K), Group: i.Name, Style: fmt.Sprint(curve.K)}
			if len(tuned) > 1 {
				s.Name = i.Name + ", " + s.Name
			}
			for _, p := range curve.Points {
				s.Points = append(s.Points, plot.Point{X: p.Recall, Y: p.Micros})
			}
			c.Series = append(c.Series, s)
		}
	}
	if len(tuned) == 1 {
		for i := range c.Series { // one index: each number of neighbors has a colour
			c.Series[i].Group, c.Series[i].Style = "", ""
		}
	}
	if len(c.Series) == 0 {
		return nil
	}
	return c
}

// Recall returns a picture of the measured recall and time of the settings of tuned indexes of a
// collection, as SVG; nil if there is nothing to show.
func Recall(coll string, indexes ...index.Info) ([]byte, error) {
	return svg(recallOf(coll, indexes...))
}

// defaultRecall is the recall that a search asks for if its options name none.
const defaultRecall = 0.95

// Default returns the mean recall of held-out rows and the time in microseconds of the setting that a search
// uses by default; zeros for an index that was not tuned or has no setting that promises the recall.
func Default(i index.Info) (recall, micros float64) {
	if i.Curve == nil {
		return 0, 0
	}
	for _, p := range i.Curve.Points {
		if i.Curve.Promise(&p) >= defaultRecall && (micros == 0 || p.Micros < micros) {
			recall, micros = p.Recall, p.Micros
		}
	}
	return recall, micros
}
