package main

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
)

// model is a shard whose replicas answer questions in turn, each one at a time. Times have the median
// time of an answer as their unit.
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
	at float64
	do func(at float64)
}

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
	rate   float64   // of questions
	hedge  bool      // late questions are sent to a second replica
	begin  []float64 // of each question
	times  []float64 // of the answers, 0 before
	left   int       // questions without an answer
	recent []float64
	limit  float64 // after which a question is late
	hedges int
}

// simulate returns the times of the answers of one shard in ascending order, and the share of questions that
// were sent twice.
func simulate(m model, questions int, hedge bool) (times []float64, more float64) {
	r := &run{
		model: m, rng: rand.New(rand.NewPCG(1, 2)), nodes: make([]replica, m.replicas), hedge: hedge,
		begin: make([]float64, questions), times: make([]float64, questions), left: questions, limit: 10,
	}
	r.rate = m.load * float64(m.replicas) / math.Exp(m.spread*m.spread/2)
	r.after(0, func(at float64) { r.arrive(at, 0) })
	for i := range r.nodes {
		r.after(r.rng.ExpFloat64()*m.between, func(at float64) { r.stalls(at, i) })
	}
	for r.left > 0 {
		e := heap.Pop(&r.events).(event)
		e.do(e.at)
	}
	slices.Sort(r.times)
	return r.times, float64(r.hedges) / float64(questions)
}

// after has something happen at a time.
func (r *run) after(at float64, do func(at float64)) { heap.Push(&r.events, event{at, do}) }

// stalls has a replica stall.
func (r *run) stalls(at float64, node int) {
	n := &r.nodes[node]
	n.until = at + r.rng.ExpFloat64()*r.stall
	r.after(n.until+r.rng.ExpFloat64()*r.between, func(at float64) { r.stalls(at, node) })
}

// arrive sends a question to a replica, and to another one if it is late.
func (r *run) arrive(at float64, question int) {
	first := r.rng.IntN(r.replicas)
	r.begin[question] = at
	r.send(at, first, question)
	if r.hedge {
		r.after(at+r.limit, func(at float64) {
			if r.times[question] == 0 {
				r.hedges++
				r.send(at, (first+1)%r.replicas, question)
			}
		})
	}
	if question+1 < len(r.times) {
		r.after(at+r.rng.ExpFloat64()/r.rate, func(at float64) { r.arrive(at, question+1) })
	}
}

// send puts a question into the queue of a replica.
func (r *run) send(at float64, node, question int) {
	n := &r.nodes[node]
	n.queue = append(n.queue, question)
	r.work(at, n)
}

// work has a replica answer the next question that has no answer.
func (r *run) work(at float64, n *replica) {
	for !n.busy && len(n.queue) > 0 {
		q := n.queue[0]
		n.queue = n.queue[1:]
		if r.times[q] != 0 {
			continue // cancelled
		}
		n.busy = true
		took := math.Exp(r.rng.NormFloat64() * r.spread)
		r.after(max(at, n.until)+took, func(at float64) { r.answer(at, n, q) })
	}
}

// answer ends the work of a replica, unless it stalls.
func (r *run) answer(at float64, n *replica, q int) {
	if n.until > at { // it has stalled since then
		again := n.until + 0.5
		n.until = 0
		r.after(again, func(at float64) { r.answer(at, n, q) })
		return
	}
	n.busy = false
	if r.times[q] == 0 {
		r.times[q] = at - r.begin[q]
		r.left--
		r.note(r.times[q])
	}
	r.work(at, n)
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
