package report

import (
	"fmt"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/plot"
	"github.com/anndb/anndb/labels"
)

// Reliable is how often the best labels of a model were right.
type Reliable struct {
	Model string
	Top   *labels.Reliability
}

// Reliability returns a picture, as SVG, of how often the best labels of some rows were right, by their
// probability, with the number of rows of each point; nil for no model.
func Reliability(rows string, models ...Reliable) ([]byte, error) {
	return svg(reliabilityOf(rows, models))
}

// reliabilityOf returns the chart of Reliability, a curve for each model.
func reliabilityOf(rows string, models []Reliable) *plot.Chart {
	if len(models) == 0 {
		return nil
	}
	c := &plot.Chart{
		Title: rows + ": best labels",
		X:     plot.Axis{Label: "probability, with the number of rows"}, Y: plot.Axis{Label: "share that is right"},
		Series: []plot.Series{{Name: "true probabilities", Points: []plot.Point{{}, {X: 1, Y: 1}}}},
	}
	for _, m := range models {
		s := plot.Series{Name: m.Model, Notes: map[plot.Point]string{}}
		if e := m.Top.Error(); len(models) == 1 {
			c.Title += fmt.Sprintf(", expected calibration error %.3f", e)
		} else {
			s.Name += fmt.Sprintf(", expected error %.3f", e)
		}
		for _, b := range m.Top {
			if n := float64(b.N); n > 0 {
				p := plot.Point{X: b.Probability / n, Y: float64(b.Right) / n}
				s.Points, s.Notes[p] = append(s.Points, p), fmt.Sprint(b.N)
			}
		}
		c.Series = append(c.Series, s)
	}
	return c
}

// calibrated are the models of a collection with probabilities, on the held-out rows of their builds.
func calibrated(indexes []index.Info) (out []Reliable) {
	for _, i := range indexes {
		if i.Calibration != nil {
			out = append(out, Reliable{i.Name, &i.Calibration.Top})
		}
	}
	return out
}
