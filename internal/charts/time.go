package charts

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/plot"
)

// ErrBusy is returned if a processor profile is being made already.
var ErrBusy = errors.New("charts: the program is being profiled")

// stages are what a dense search does, in its order, with the functions of package query that do
// it. A sample of the profile belongs to the innermost of them.
var stages = []struct{ name, functions string }{
	{"rotate the query", "project"},
	{"leaves of the trees", "gather find elected add thin"},
	{"sketches", "estimate score enter scanSketches measureErrors enterFresh"},
	{"neighbor lists", "follow walk expand startBeam merge hopOnce starts"},
	{"exact distances", "distance prefetch scan scanRow scanAll keep sort merge2"},
}

// Time returns where the time of searches of a dense collection goes, in microseconds per query.
// It searches for the queries again and again, on one goroutine for about the duration, and takes a
// processor profile of that. Errors: ErrBusy, those of Search.
func Time(
	ctx context.Context, c db.Collection, queries []db.Query, o db.SearchOptions, lasting time.Duration,
) (*plot.Chart, error) {
	if len(queries) == 0 {
		return nil, fmt.Errorf("%w: no query", ErrFew)
	}
	var raw bytes.Buffer
	if err := pprof.StartCPUProfile(&raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	start, n := time.Now(), 0
	var err error
	for ; err == nil && time.Since(start) < lasting; n++ {
		var r db.Result
		r, err = c.Search(ctx, queries[n%len(queries)], &o)
		o.Reuse = r.Hits
	}
	took := time.Since(start)
	pprof.StopCPUProfile()
	if err != nil {
		return nil, err
	}
	p, err := profile.Parse(&raw)
	if err != nil {
		return nil, fmt.Errorf("charts: read the profile: %w", err)
	}
	micros := took.Seconds() * 1e6 / float64(n)
	names, shares := byStage(p)
	s := plot.Series{Mark: plot.Bars}
	for i, share := range shares {
		names[i] += fmt.Sprintf(" %.0f %%", 100*share)
		s.Points = append(s.Points, plot.Point{X: share * micros, Y: float64(i)})
	}
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	return &plot.Chart{
		Title: fmt.Sprintf("%s: where %.1f µs of a query go, recall %g",
			info.Name, micros, cmp.Or(o.Recall, 0.95)),
		X:      plot.Axis{Label: "µs"},
		Y:      plot.Axis{Names: names},
		Series: []plot.Series{s},
	}, nil
}

// byStage returns the stages, the last first as a chart draws them from below, and the share of
// samples of each.
func byStage(p *profile.Profile) (names []string, shares []float64) {
	counts, total := make([]float64, len(stages)+1), 0.0
	for _, s := range p.Sample {
		v := float64(s.Value[0])
		counts[stageOf(s)] += v
		total += v
	}
	for i := len(stages); i >= 0; i-- {
		name := "the rest"
		if i < len(stages) {
			name = stages[i].name
		}
		names = append(names, name)
		shares = append(shares, counts[i]/max(total, 1))
	}
	return names, shares
}

// stageOf returns the number of the stage that a sample belongs to, the number of stages if to none.
func stageOf(s *profile.Sample) int {
	for _, at := range s.Location { // the innermost first
		for _, line := range at.Line {
			_, method, ok := strings.Cut(line.Function.Name, "anndb/query.(*")
			if !ok {
				continue
			}
			_, method, _ = strings.Cut(method, ").")
			for i, stage := range stages {
				for _, f := range strings.Fields(stage.functions) {
					if f == method {
						return i
					}
				}
			}
		}
	}
	return len(stages)
}
