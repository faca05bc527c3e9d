package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// moment is when a child at work is killed or cut off: at counts of what it has acknowledged, not at a time,
// so that a slow machine does not change what is met.
type moment struct {
	acks int  // batches and steps acknowledged by this child; none is when it begins
	step bool // and then the next acknowledgement of a step
	// delay is a time after that: small, so that what follows is under way.
	delay time.Duration
}

// momentLimit is how long a child may take to reach its moment.
const momentLimit = 5 * time.Minute

// newMoment draws a moment: every third one follows the end of a step.
func newMoment(rng *rand.Rand, i int, delay time.Duration) moment {
	return moment{acks: 1 + rng.IntN(6), step: i%3 == 1, delay: time.Duration(rng.Int64N(int64(delay)))}
}

// begins reports whether the moment is the child's beginning.
func (m *moment) begins() bool { return m.acks == 0 && !m.step }

// passed counts an acknowledgement and reports whether the moment has come.
func (m *moment) passed(step bool) bool {
	m.acks--
	return m.acks <= 0 && (step || !m.step)
}

func (m moment) String() string {
	return fmt.Sprintf("%d acknowledgements, step %v, %v", m.acks, m.step, m.delay)
}

// tooFewCounts begins the error of a layer whose counts are too small.
const tooFewCounts = "too few"

// tooFew returns an error for counts too small to prove anything.
func (t *totals) tooFew(least map[string]int) error {
	for _, name := range t.names {
		if n, ok := least[name]; ok && t.counts[name] < n {
			return fmt.Errorf(tooFewCounts+" %s: %d, want at least %d, so that the layer proves nothing", name, t.counts[name], n)
		}
	}
	for name, n := range least {
		if _, ok := t.counts[name]; !ok {
			return fmt.Errorf(tooFewCounts+" %s: none, want at least %d, so that the layer proves nothing", name, n)
		}
	}
	return nil
}
