package plot

import (
	"math"
	"strconv"

	gonumplot "gonum.org/v1/plot"
)

// Scale is how an axis maps values.
type Scale uint8

const (
	// Linear is for values of any size.
	Linear Scale = iota
	// Log is for values above zero.
	Log
	// Recall is for shares of up to 1 whose distance from 1 matters: equal lengths lead from 0.9 to
	// 0.99 and from 0.99 to 0.999. It shows 1 at its end.
	Recall
)

// Axis describes one axis of a chart.
type Axis struct {
	Label string
	Scale Scale
	// Min is where the axis begins, if it is not zero; points below it are left out.
	Min float64
	// Whole axes have labels at whole numbers only.
	Whole bool
	// Bare axes have no ticks.
	Bare bool
	// Names, if not nil, are the labels of 0, 1, 2 and so on.
	Names []string
}

// full is where a Recall axis shows a recall of 1. No axis can show its own infinity.
const full = 0.9997

// shows reports whether the axis has a place for v.
func (a Axis) shows(v float64) bool {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0) || a.Min != 0 && v < a.Min:
		return false
	case a.Scale == Log:
		return v > 0
	case a.Scale == Recall:
		return v >= 0 && v <= 1
	}
	return true
}

// place returns the value at whose place the axis shows v.
func (a Axis) place(v float64) float64 {
	if a.Scale == Recall {
		return min(v, full)
	}
	return v
}

// apply sets up gonum's axis for values in a range.
func (a Axis) apply(to *gonumplot.Axis, s span) {
	to.Label.Text = a.Label
	switch a.Scale {
	case Log:
		to.Scale, to.Tick.Marker = gonumplot.LogScale{}, logTicks{whole: a.Whole}
		// The margin also avoids an empty range, which a logarithmic axis cannot map.
		to.Min, to.Max = s.lo/1.15, s.hi*1.15
	case Recall:
		to.Scale, to.Tick.Marker = recallScale{}, recallTicks{}
		to.Min, to.Max = max(0, s.lo-(1-s.lo)*0.1), 1-(1-s.hi)*0.85
	default:
		margin := (s.hi - s.lo) * 0.02
		if margin == 0 {
			margin = max(math.Abs(s.hi)*0.02, 1e-9)
		}
		to.Min, to.Max = s.lo-margin, s.hi+margin
		if a.Whole {
			to.Tick.Marker = wholeTicks{}
		}
	}
	if a.Min != 0 {
		to.Min = a.Min
	}
	if a.Names != nil {
		var ticks []gonumplot.Tick
		for i, name := range a.Names {
			ticks = append(ticks, gonumplot.Tick{Value: float64(i), Label: name})
		}
		to.Tick.Marker = gonumplot.ConstantTicks(ticks)
		to.Min, to.Max = -0.6, float64(len(a.Names))-0.4
	}
	if a.Bare {
		to.Tick.Marker, to.LineStyle.Width = gonumplot.ConstantTicks(nil), 0
	}
}

// recallScale is gonum's view of the Recall scale: logarithmic in the distance from 1.
type recallScale struct{}

func (recallScale) Normalize(lo, hi, x float64) float64 {
	from := nines(lo)
	return (nines(x) - from) / (nines(hi) - from)
}

// nines is 1 for 0.9, 2 for 0.99, and so on.
func nines(x float64) float64 { return -math.Log10(1 - min(x, full)) }

// recallTicks labels the recalls that people ask for, where there is room for the label.
type recallTicks struct{}

// labelRoom is the least distance of two labels as a share of the axis.
const labelRoom = 0.035

// recallMarks are the recalls that can have a tick.
var recallMarks = []float64{
	0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, full,
}

func (recallTicks) Ticks(lo, hi float64) []gonumplot.Tick {
	var ticks []gonumplot.Tick
	last := -1.0
	for _, v := range recallMarks {
		if v < lo || v > hi {
			continue
		}
		label := strconv.FormatFloat(v, 'g', -1, 64)
		if v == full {
			label = "1"
		}
		if at := (recallScale{}).Normalize(lo, hi, v); at-last < labelRoom {
			label = ""
		} else {
			last = at
		}
		ticks = append(ticks, gonumplot.Tick{Value: v, Label: label})
	}
	return ticks
}

// logTicks labels 1, 2 and 5 times the powers of ten and marks the rest; only the powers where
// there are many, and round numbers where the axis is too short for two of these.
type logTicks struct{ whole bool }

func (t logTicks) Ticks(lo, hi float64) []gonumplot.Tick {
	var ticks []gonumplot.Tick
	many, labels := hi/lo > 2000, 0
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, e)
			if v < lo || v > hi {
				continue
			}
			label := ""
			if m == 1 || !many && (m == 2 || m == 5) {
				label = strconv.FormatFloat(v, 'g', 7, 64)
				labels++
			}
			ticks = append(ticks, gonumplot.Tick{Value: v, Label: label})
		}
	}
	switch {
	case labels < 2 && t.whole:
		return wholeTicks{}.Ticks(lo, hi)
	case labels < 2:
		return gonumplot.DefaultTicks{}.Ticks(lo, hi)
	}
	return ticks
}

// wholeTicks labels about ten whole numbers: all, or the multiples of 2, 5, 10, 20 and so on.
type wholeTicks struct{}

// Ticks returns the ticks between lo and hi.
func (wholeTicks) Ticks(lo, hi float64) (ticks []gonumplot.Tick) {
	step := 1.0
	for i := 0; (hi-lo)/step > 10; i++ {
		step *= []float64{2, 2.5, 2}[i%3]
	}
	for v := math.Ceil(lo/step)*step + 0; v <= hi; v += step {
		ticks = append(ticks, gonumplot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', 0, 64)})
	}
	return ticks
}
