package plot

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
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
	// Bare axes have no ticks.
	Bare bool
}

// full is where a Recall axis shows a recall of 1. No axis can show its own infinity.
const full = 0.9997

// largest is the largest value that an axis shows: ten times as much is still finite.
const largest = 1e300

// shows reports whether the axis has a place for v.
func (a Axis) shows(v float64) bool {
	switch {
	case !(math.Abs(v) <= largest) || a.Min != 0 && v < a.Min:
		return false
	case a.Scale == Log:
		return v >= 1/largest
	case a.Scale == Recall:
		return v >= 0 && v <= 1
	}
	return true
}

// length maps a value to a length along the axis: equal lengths look equal.
func (a Axis) length(v float64) float64 {
	switch a.Scale {
	case Log:
		return math.Log10(v)
	case Recall:
		return -math.Log10(1 - min(v, full))
	}
	return v
}

// span is the range of some values.
type span struct{ lo, hi float64 }

var empty = span{math.Inf(1), math.Inf(-1)}

func (s *span) include(v float64) { s.lo, s.hi = min(s.lo, v), max(s.hi, v) }

// span returns the range of the axis for values in a range: it is never empty.
func (a Axis) span(s span) span {
	switch {
	case a.Scale == Log:
		s = span{s.lo / 1.15, s.hi * 1.15}
	case a.Scale == Recall:
		s = span{min(s.lo, full), min(s.hi, full)}
		s = span{max(0, s.lo-(1-s.lo)*0.1), 1 - (1-s.hi)*0.85}
	default:
		margin := (s.hi - s.lo) * 0.02
		if size := max(math.Abs(s.lo), math.Abs(s.hi), 1/largest); margin <= 1e-12*size {
			margin = max(size, 1) * 0.02 // the values cannot be told apart
		}
		s = span{s.lo - margin, s.hi + margin}
	}
	if a.Min != 0 {
		s.lo = a.Min
	}
	return s
}

// frame maps the values of an axis to pixels.
type frame struct {
	axis     Axis
	lo, hi   float64 // lengths of the ends
	from, to float64 // pixels of the ends
	ticks    []tick
}

// tick is a place on an axis, with a label or without.
type tick struct {
	value float64
	label string
	rank  int     // of two labels that overlap, the one of lower rank stays
	at    float64 // pixels
}

// frame returns the axis for values in a range, between two pixels. room returns the pixels that a label
// needs along the axis.
func (a Axis) frame(s span, from, to float64, room func(label string) float64) frame {
	s = a.span(s)
	f := frame{axis: a, lo: a.length(s.lo), hi: a.length(s.hi), from: from, to: to}
	most := max(2, int(math.Abs(to-from)/(room("10,000")+20)))
	var labelled []tick
	for _, t := range a.candidates(s.lo, s.hi, most) {
		if t.value < s.lo || t.value > s.hi {
			continue
		}
		t.at = f.place(t.value)
		if slices.ContainsFunc(labelled, func(o tick) bool {
			return math.Abs(o.at-t.at) < (room(o.label)+room(t.label))/2
		}) {
			t.label = ""
		}
		if t.label != "" {
			labelled = append(labelled, t)
		}
		f.ticks = append(f.ticks, t)
	}
	return f
}

// place returns the pixel of a value.
func (f *frame) place(v float64) float64 {
	return f.from + (f.axis.length(v)-f.lo)/(f.hi-f.lo)*(f.to-f.from)
}

// candidates returns the ticks that an axis could have between lo and hi, those of the lowest rank first.
func (a Axis) candidates(lo, hi float64, most int) []tick {
	var ticks []tick
	switch {
	case a.Bare:
		return nil
	case a.Scale == Recall:
		return recallTicks
	case a.Scale == Log:
		ticks = logTicks(lo, hi)
	}
	if labels := slices.DeleteFunc(slices.Clone(ticks),
		func(t tick) bool { return t.label == "" }); len(labels) > 1 {
		return ticks
	}
	return linearTicks(lo, hi, most)
}

// recallTicks are the recalls that people ask for.
var recallTicks = func() (ticks []tick) {
	for rank, v := range []float64{0.9, 0.99, 0.999, full, 0.5, 0.95, 0.995, 0.8, 0.98, 0.998, 0.7,
		0.6, 0.4, 0.2, 0} {
		ticks = append(ticks, tick{value: v, label: number(v, -1), rank: rank})
	}
	ticks[3].label = "1"
	return ticks
}()

// logTicks returns 1, 2 and 5 times the powers of ten with labels and the other multiples without.
func logTicks(lo, hi float64) (ticks []tick) {
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		for m := 1.0; m < 10; m++ {
			v, _ := strconv.ParseFloat(strconv.FormatFloat(m*math.Pow(10, e), 'g', 3, 64), 64)
			t := tick{value: v, rank: 1}
			switch m {
			case 1:
				t.rank = 0
				fallthrough
			case 2, 5:
				t.label = number(v, -1)
			}
			if v >= lo && v <= hi {
				ticks = append(ticks, t)
			}
		}
	}
	slices.SortStableFunc(ticks, func(a, b tick) int { return cmp.Compare(a.rank, b.rank) })
	return ticks
}

// linearTicks returns at most so many multiples of 1, 2 or 5 times a power of ten.
func linearTicks(lo, hi float64, most int) (ticks []tick) {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(most))))
	for _, factor := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if math.Floor(hi/step)-math.Ceil(lo/step) >= float64(most) {
			step *= factor
		}
	}
	decimals := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	for i := range most {
		if v := (math.Ceil(lo/step) + float64(i)) * step; v <= hi {
			ticks = append(ticks, tick{value: v, label: number(v, decimals)})
		}
	}
	return ticks
}

// number prints a value with so many decimals, or as many as it has if decimals is -1, and groups of
// three digits.
func number(v float64, decimals int) string {
	if v != 0 && (math.Abs(v) < 1e-6 || math.Abs(v) >= 1e15) {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	s := strconv.FormatFloat(v+0, 'f', decimals, 64)
	whole, _, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
