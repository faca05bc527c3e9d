package forestindex

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/query"
)

// Maintenance watches the recall of an index: after enough rows were absorbed or deleted it measures
// on the probes what searches deliver. If that has fallen below what is asked for, the curve is tuned
// again on the probes. If no setting reaches it any more, the forest is rebuilt.

// watchShare is the share of changed rows after which the recall is measured again.
const watchShare = 0.05

// watchDue reports whether so many rows were absorbed or deleted that recall has to be measured. gone is
// the number of covered rows that are deleted.
func (f *detail) watchDue(m *kind.Manifest, gone int) bool {
	if f.Probes == 0 || m.Info.Curve == nil {
		return false
	}
	rows, dead := f.Watched, f.WatchedDead
	if rows == 0 {
		rows, dead = f.grown(m)
	}
	changed := m.Info.Rows - rows + max(0, gone-dead)
	return changed > 0 && float64(changed) >= watchShare*float64(rows-dead)
}

// RewriteDue reports whether the recall has to be measured.
func (f *detail) RewriteDue(deletedRows *roaring.Bitmap, m *kind.Manifest, _ float64) bool {
	return f.watchDue(m, goneOf(deletedRows, m))
}

// goneOf returns the number of covered rows that are deleted.
func goneOf(deletedRows *roaring.Bitmap, m *kind.Manifest) int {
	if b := kind.Within(deletedRows, 0, m.Info.Rows); b != nil {
		return int(b.GetCardinality())
	}
	return 0
}

// grown returns the number of rows that the forest covered when its trees were grown, and the number
// of these that had been deleted.
func (f *detail) grown(m *kind.Manifest) (rows, dead int) {
	if f.Grown > 0 {
		return f.Grown, f.GrownDead
	}
	return m.Info.Rows, m.Info.Rows - m.Info.TrainingPoints
}

// watching is a step of maintenance that measures the recall of a forest.
type watching struct {
	step
	p     *probes
	curve *query.Curve
	tuned bool
	gone  int
}

// watch measures the recall of an index, and tunes again if it has fallen. rebuild is set if no setting
// reaches the recall of the build.
func watch(ctx context.Context, st kind.Source, m *kind.Manifest, timer *kind.Timer) (
	s *watching, rebuild bool, err error) {
	x, err := st.OpenNamed(ctx, m.Info.Name)
	if err != nil {
		return nil, false, err
	}
	p, err := loadProbes(ctx, st, m)
	if err != nil {
		return nil, false, err
	}
	s = &watching{step: step{m: m, v: x.(*index).view}, p: p, gone: goneOf(st.DeletedSet(), m)}
	v, was := p.hide(s.v), m.Info.Curve
	holds := false
	err = timer.Run("probes", func(func(int, int)) error {
		if err := p.refresh(ctx, st, v, was.K); err != nil {
			return err
		}
		s.curve, holds, err = was.Recheck(ctx, v, p.queries(v), p.truth)
		return err
	})
	if err != nil {
		return nil, false, fail.Wrapf(kind.AsParameter(err), "measure recall")
	}
	if !holds {
		err := timer.Run("tune", func(report func(int, int)) error {
			s.curve, err = p.tune(ctx, st, v, was.K, report)
			return err
		})
		if err != nil {
			return nil, false, fail.Wrapf(kind.AsParameter(err), "tune")
		}
		s.tuned, rebuild = true, query.Falls(was, s.curve)
	}
	s.curve.Queries, s.curve.Rows, s.curve.Measured = len(p.rows), m.Info.Rows-s.gone, time.Now().UTC()
	return s, rebuild, nil
}

// tune measures the curve again on the probes.
func (p *probes) tune(ctx context.Context, st kind.Source, v *query.View, k int,
	report func(int, int)) (*query.Curve, error) {
	queries, truth := p.queries(v), slices.Clone(p.truth)
	err := p.each(ctx, st, func(s *query.Searcher, i int) error {
		if !p.deep(i) {
			return nil
		}
		scan := query.Params{K: query.DeepestTruth, Method: query.Flat}
		near, _, err := s.Search(ctx, v, queries[i], &scan, nil)
		truth[i] = nil
		for _, n := range near {
			truth[i] = append(truth[i], n.ID)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return query.Tune(ctx, v, queries, truth, k, report)
}

func (s *watching) Rows() int { return len(s.p.rows) }

func (s *watching) Action() string {
	if s.tuned {
		return "tune"
	}
	return "measure"
}

// forestSections are the sections of a forest, without its probes.
var forestSections = []codec.Kind{codec.KindNodes, codec.KindLeafDir, codec.KindDirections, codec.KindLeaves,
	codec.KindMembers, codec.KindRotation, codec.KindLists, codec.KindNeighbors, codec.KindSketch,
	codec.KindQuantized, codec.KindOverlayDir, codec.KindOverlay, codec.KindOverlayMembers}

// Emit writes the probes, and a manifest that refers to the other blocks where they are.
func (s *watching) Emit(object uint64, sink arrays.Sink) (*kind.Manifest, error) {
	s.removed = nil
	m, was := *s.m, detailOf(s.m)
	d := *was
	m.Object, m.Own, m.Info.Curve = object, &d, s.curve
	d.Runs = map[codec.Kind][]arrays.Run{}
	for _, section := range forestSections {
		if d.Runs[section] = was.Runs[section]; d.Runs[section] == nil {
			d.Runs[section] = []arrays.Run{{Object: s.m.Object}}
		}
	}
	w := arrays.NewWriter(object, sink)
	s.emitProbes(w, s.p)
	m.Info.Bytes = maps.Clone(s.m.Info.Bytes)
	maps.Copy(m.Info.Bytes, w.Sizes)
	if d.Grown == 0 {
		d.Grown, d.GrownDead = was.grown(s.m)
	}
	d.Watched, d.WatchedDead = m.Info.Rows, s.gone
	s.kept = d.Runs
	return &m, w.Err
}

// emitProbes writes the probes of an index, if it has any, and records the blocks of the previous ones
// as removed.
func (s *step) emitProbes(w *arrays.Writer, p *probes) {
	if p == nil {
		return
	}
	for i := range probeArrays {
		s.removed = append(s.removed, kind.BlockRef{Object: s.m.Object, Kind: codec.KindProbes, Number: uint32(i)})
	}
	p.write(w)
}
