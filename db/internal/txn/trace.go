package txn

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/db/trace"
)

// totals are the counters of trace.Totals, apart from commits.
type totals struct{ searches, predictions, rows, bytes atomic.Uint64 }

// Totals returns what was counted so far.
func (m *Manager) Totals() trace.Totals {
	t := &m.totals
	return trace.Totals{
		Searches: t.searches.Load(), Predictions: t.predictions.Load(), Commits: m.commits.Load(),
		RowsWritten: t.rows.Load(), BytesWritten: t.bytes.Load(),
	}
}

// Start returns the time for the start of a span, and the zero time if the program takes none.
func (m *Manager) Start() (t time.Time) {
	if m != nil && m.opts.Trace != nil {
		t = time.Now()
	}
	return t
}

// End counts the work of a span and hands it to the program.
func (m *Manager) End(ctx context.Context, s trace.Span) {
	if m == nil {
		return
	}
	switch t := &m.totals; s.Name {
	case trace.Search:
		t.searches.Add(uint64(s.Queries))
	case trace.Predict:
		t.predictions.Add(uint64(s.Queries))
	case trace.Commit:
		if s.Err == nil {
			t.rows.Add(uint64(s.Rows))
			t.bytes.Add(uint64(s.Bytes))
		}
	}
	if m.opts.Trace != nil {
		s.Duration = time.Since(s.Start)
		m.opts.Trace(ctx, s)
	}
}

// EndStep hands a step of maintenance to the program.
func (m *Manager) EndStep(ctx context.Context, start time.Time, s *maintenance.Step, err error) {
	m.End(ctx, trace.Span{
		Name: s.Action, Start: start, Collection: s.Collection, Index: s.Index, Rows: s.Rows, Err: err,
	})
}

// commitSpan returns the span of a transaction.
func commitSpan(start time.Time, ops []apply.Op, bytes int) trace.Span {
	s := trace.Span{Name: trace.Commit, Start: start, Rows: len(ops), Bytes: int64(bytes)}
	for i := range ops {
		if s.Collection = ops[i].Collection; s.Collection != ops[0].Collection {
			s.Collection = ""
			break
		}
	}
	return s
}
