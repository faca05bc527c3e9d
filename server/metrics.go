package server

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/anndb/anndb/db"
)

// bounds are the upper bounds of the latency histogram, in seconds.
var bounds = [...]float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100}

// metrics counts requests.
type metrics struct {
	routes         map[string]*routeMetrics // by pattern, "" for requests without a route
	sent, received atomic.Int64
}

// routeMetrics are the counts of a route.
type routeMetrics struct {
	statuses [600]atomic.Int64 // 0 for answers that did not end
	buckets  [len(bounds) + 1]atomic.Int64
	nanos    atomic.Int64
}

func (m *metrics) add(pattern string) {
	if m.routes == nil {
		m.routes = map[string]*routeMetrics{"": {}}
	}
	m.routes[pattern] = &routeMetrics{}
}

// count counts a request that has ended.
func (m *metrics) count(pattern string, c *call, status int, took time.Duration) {
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

// showMetrics answers in the text format of Prometheus.
func showMetrics(c *call) error {
	var b bytes.Buffer
	m := &c.s.metrics
	family := func(name, kind, help string) {
		fmt.Fprintf(&b, "# HELP anndb_%s %s\n# TYPE anndb_%s %s\n", name, help, name, kind)
	}
	family("requests_total", "counter", "Requests by route and status; status 0 is an answer that did not end.")
	patterns := slices.Sorted(maps.Keys(m.routes))
	for _, pattern := range patterns {
		r := m.routes[pattern]
		for status := range r.statuses {
			if n := r.statuses[status].Load(); n > 0 {
				fmt.Fprintf(&b, "anndb_requests_total{%s,status=\"%d\"} %d\n", label("route", pattern), status, n)
			}
		}
	}
	family("request_seconds", "histogram", "Time from the header of a request to the end of its answer.")
	for _, pattern := range patterns {
		m.routes[pattern].write(&b, label("route", pattern))
	}
	family("requests", "gauge", "Requests in progress.")
	fmt.Fprintf(&b, "anndb_requests %d\n", len(c.s.reads)+len(c.s.changes))
	family("connections", "gauge", "Open connections.")
	fmt.Fprintf(&b, "anndb_connections %d\n", c.s.open.Load())
	family("sent_bytes_total", "counter", "Bytes of the bodies of answers.")
	fmt.Fprintf(&b, "anndb_sent_bytes_total %d\n", m.sent.Load())
	family("received_bytes_total", "counter", "Bytes of the bodies of requests.")
	fmt.Fprintf(&b, "anndb_received_bytes_total %d\n", m.received.Load())
	b.WriteString("# HELP go_goroutines Goroutines of the process.\n# TYPE go_goroutines gauge\n")
	fmt.Fprintf(&b, "go_goroutines %d\n", runtime.NumGoroutine())
	if err := c.s.fileMetrics(&b, family); err != nil {
		return err
	}
	if c.s.o.Metrics != nil {
		c.s.o.Metrics(&b)
	}
	c.send(http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", b.Bytes())
	return nil
}

// label returns a label of a sample.
func label(name, value string) string {
	return name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}

// write writes the histogram of a route, which is in a label, if it has had requests.
func (r *routeMetrics) write(b *bytes.Buffer, route string) {
	n := int64(0)
	for i := range r.buckets {
		n += r.buckets[i].Load()
	}
	if n == 0 {
		return
	}
	below := int64(0)
	for i := range r.buckets {
		below += r.buckets[i].Load()
		bound := "+Inf"
		if i < len(bounds) {
			bound = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		fmt.Fprintf(b, "anndb_request_seconds_bucket{%s,le=%q} %d\n", route, bound, below)
	}
	fmt.Fprintf(b, "anndb_request_seconds_sum{%s} %g\n", route, time.Duration(r.nanos.Load()).Seconds())
	fmt.Fprintf(b, "anndb_request_seconds_count{%s} %d\n", route, below)
}

// fileMetrics writes the statistics of the files.
func (s *Server) fileMetrics(b *bytes.Buffer, family func(name, kind, help string)) error {
	stats := map[string]db.Stats{}
	for name, d := range s.files {
		var err error
		if stats[name], err = d.Stats(); err != nil {
			return fmt.Errorf("file %q: %w", name, err)
		}
	}
	files := slices.Sorted(maps.Keys(stats))
	for _, f := range [...]struct {
		name, kind, help string
		value            func(*db.Stats) any
	}{
		{"file_bytes", "gauge", "Length of the file.", func(s *db.Stats) any { return s.FileBytes }},
		{"file_free_bytes", "gauge", "Free pages of the file.", func(s *db.Stats) any { return s.FreeBytes }},
		{"file_snapshots", "gauge", "Snapshots that are held.", func(s *db.Stats) any { return s.Snapshots }},
		{"searches_total", "counter", "Queries that were searched for.",
			func(s *db.Stats) any { return s.Searches }},
		{"predictions_total", "counter", "Queries whose labels were predicted.",
			func(s *db.Stats) any { return s.Predictions }},
		{"commits_total", "counter", "Commits to the file.", func(s *db.Stats) any { return s.Commits }},
		{"rows_written_total", "counter", "Rows put, changed or deleted.",
			func(s *db.Stats) any { return s.RowsWritten }},
		{"maintenance_steps_total", "counter", "Completed steps of maintenance.",
			func(s *db.Stats) any { return s.Maintenance.Steps }},
	} {
		family(f.name, f.kind, f.help)
		for _, file := range files {
			st := stats[file]
			fmt.Fprintf(b, "anndb_%s{%s} %v\n", f.name, label("file", file), f.value(&st))
		}
	}
	family("rows", "gauge", "Rows of a collection.")
	for _, file := range files {
		for _, coll := range stats[file].Collections {
			fmt.Fprintf(b, "anndb_rows{%s,%s} %d\n", label("file", file), label("collection", coll.Name), coll.Live)
		}
	}
	return nil
}
