package server

import (
	"sync/atomic"
	"time"
)

// bounds are the upper bounds of the latency histogram, in seconds.
var bounds = [...]float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100}

// metrics counts requests.
type metrics struct {
	routes                   map[string]*routeMetrics
	searches, sent, received atomic.Int64
}

// routeMetrics are the counts of a route.
type routeMetrics struct {
	statuses [600]atomic.Int64 // 0 for answers that did not end
	buckets  [len(bounds) + 1]atomic.Int64
	nanos    atomic.Int64
}

func (m *metrics) add(pattern string) {
	if m.routes == nil {
		m.routes = map[string]*routeMetrics{"": {}} // of requests without a route
	}
	m.routes[pattern] = &routeMetrics{}
}

// count counts a request that has ended.
func (m *metrics) count(pattern string, status int, took time.Duration, c *call) {
	r := m.routes[pattern]
	r.statuses[min(status, len(r.statuses)-1)].Add(1)
	i := 0
	for i < len(bounds) && took.Seconds() > bounds[i] {
		i++
	}
	r.buckets[i].Add(1)
	r.nanos.Add(took.Nanoseconds())
	m.sent.Add(c.sent)
}
