package report

import (
	"fmt"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/plot"
)

// reliabilityOf returns how often the best labels of held-out rows were right, by their probability, a curve
// for each label model with probabilities; nil if there is none.
func reliabilityOf(coll string, indexes ...index.Info) *plot.Chart {
	c := &plot.Chart{
		Title: coll + ": best labels of held-out rows",
		X:     plot.Axis{Label: "probability"}, Y: plot.Axis{Label: "share that is right"},
		Series: []plot.Series{{Name: "true probabilities", Points: []plot.Point{{}, {X: 1, Y: 1}}}},
	}
	for _, i := range indexes {
		if i.Calibration == nil {
			continue
		}
		top := &i.Calibration.Top
		s := plot.Series{Name: fmt.Sprintf("%s, error %.3f", i.Name, top.Error())}
		for _, b := range top {
			if n := float64(b.N); n > 0 {
				s.Points = append(s.Points, plot.Point{X: b.Probability / n, Y: float64(b.Right) / n})
			}
		}
		c.Series = append(c.Series, s)
	}
	if len(c.Series) == 1 {
		return nil
	}
	return c
}
