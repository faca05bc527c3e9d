package main

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
)

// model is a shard whose replicas answer questions in turn, each one at a time. Times have the median time of an
// answer as their unit.
type model struct {
	replicas int
	load     float64 // the share of the time that a replica works, without hedging
	spread   float64 // of the logarithm of the time of an answer
	// A replica stalls after every so long a time, on average, for stall, on average: a compaction, a slow
	// disk, a neighbor on the same machine.
	between, stall float64
}

// standard has stalls in one of fifty answers.
var standard = model{replicas: 2, load: 0.3, spread: 0.4, between: 2000, stall: 40}

// late is the time of an answer that has met a stall.
const late = 20

// event is something that happens at a time.
type event struct {
	at   float64
	what int
	who  int // the replica, or the question
	ask  int // the question of an answer
}

const (
	arrives = iota
	answers
	isLate
	stalls
)

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// replica answers the questions of a queue.
type replica struct {
	queue []int
	busy  bool
	until float64 // of a stall
}

// run is one simulation.
type run struct {
	model

	rng    *rand.Rand
	events events
	nodes  []replica
	begin  []float64 // of each question
	first  []int     // the replica that is asked first
	times  []float64 // of the answers, 0 before
	recent []float64
	limit  float64 // after which a question is late
	hedges int
}

// simulate returns the times of the answers of one shard in ascending order, and the share of questions that
// were sent twice.
func simulate(m model, questions int, hedge bool) (times []float64, more float64) {
	r := &run{
		model: m, rng: rand.New(rand.NewPCG(1, 2)), nodes: make([]replica, m.replicas),
		begin: make([]float64, questions), first: make([]int, questions), times: make([]float64, questions),
		limit: 10,
	}
	mean := math.Exp(m.spread * m.spread / 2)
	rate := m.load * float64(m.replicas) / mean
	heap.Push(&r.events, event{at: 0, what: arrives})
	for i := range r.nodes {
		heap.Push(&r.events, event{at: r.rng.ExpFloat64() * m.between, what: stalls, who: i})
	}
	for left := questions; left > 0; {
		e := heap.Pop(&r.events).(event)
		switch e.what {
		case arrives:
			r.arrive(e, rate, hedge)
		case isLate:
			if r.times[e.who] == 0 {
				r.hedges++
				r.send(e.at, (r.first[e.who]+1)%m.replicas, e.who)
			}
		case stalls:
			n := &r.nodes[e.who]
			n.until = e.at + r.rng.ExpFloat64()*m.stall
			heap.Push(&r.events, event{at: n.until + r.rng.ExpFloat64()*m.between, what: stalls, who: e.who})
		case answers:
			if r.answer(e) {
				left--
			}
		}
	}
	slices.Sort(r.times)
	return r.times, float64(r.hedges) / float64(questions)
}

// arrive sends a question to a replica.
func (r *run) arrive(e event, rate float64, hedge bool) {
	q := e.who
	r.begin[q], r.first[q] = e.at, r.rng.IntN(r.replicas)
	r.send(e.at, r.first[q], q)
	if hedge {
		heap.Push(&r.events, event{at: e.at + r.limit, what: isLate, who: q})
	}
	if q+1 < len(r.times) {
		heap.Push(&r.events, event{at: e.at + r.rng.ExpFloat64()/rate, what: arrives, who: q + 1})
	}
}

// send puts a question into the queue of a replica.
func (r *run) send(at float64, node, question int) {
	n := &r.nodes[node]
	n.queue = append(n.queue, question)
	r.work(at, node)
}

// work has a replica answer the next question that has no answer.
func (r *run) work(at float64, node int) {
	n := &r.nodes[node]
	for !n.busy && len(n.queue) > 0 {
		q := n.queue[0]
		n.queue = n.queue[1:]
		if r.times[q] != 0 {
			continue // cancelled
		}
		n.busy = true
		took := math.Exp(r.rng.NormFloat64() * r.spread)
		heap.Push(&r.events, event{at: max(at, n.until) + took, what: answers, who: node, ask: q})
	}
}

// answer ends the work of a replica, unless it stalls, and reports whether it is the first answer.
func (r *run) answer(e event) (first bool) {
	n := &r.nodes[e.who]
	if n.until > e.at { // it has stalled since then
		e.at, n.until = n.until+0.5, 0
		heap.Push(&r.events, e)
		return false
	}
	n.busy = false
	if first = r.times[e.ask] == 0; first {
		r.times[e.ask] = e.at - r.begin[e.ask]
		r.note(r.times[e.ask])
	}
	r.work(e.at, e.who)
	return first
}

// note keeps the 95th percentile of recent times, as gateways do.
func (r *run) note(took float64) {
	const size = 128
	r.recent = append(r.recent, took)
	if len(r.recent) == size {
		slices.Sort(r.recent)
		r.limit = r.recent[size*95/100]
		r.recent = r.recent[:0]
	}
}

// quantile returns a quantile of the slowest of n answers, by sorted times of one.
func quantile(times []float64, p float64, n int) float64 {
	at := math.Pow(p, 1/float64(n)) * float64(len(times))
	return times[min(int(at), len(times)-1)]
}

// beyond returns how often the slowest of n answers takes longer than a time.
func beyond(times []float64, limit float64, n int) float64 {
	at, _ := slices.BinarySearch(times, limit)
	return 1 - math.Pow(float64(at)/float64(len(times)), float64(n))
}
