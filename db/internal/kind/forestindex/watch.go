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
	"github.com/anndb/anndb/db/internal/sample"
	"github.com/anndb/anndb/query"
)

// Maintenance watches the recall of an index: after enough rows were absorbed or deleted it measures
// on the probes what searches deliver. If that has fallen below what is asked for, the curve is tuned
// again on the probes. If no setting reaches it any more, the forest is rebuilt.
//
// If queries of users are sampled, it measures these as well, also when enough of them are new. A
// curve that is tuned then has for each setting the less recall of probes and users.

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
		rows, dead = f.grown()
	}
	changed := m.Info.Rows - rows + max(0, gone-dead)
	return changed > 0 && float64(changed) >= watchShare*float64(rows-dead)
}

// RewriteDue reports whether the recall has to be measured.
func (f *detail) RewriteDue(st kind.Source, m *kind.Manifest, _ float64) bool {
	return f.FromRows && (f.watchDue(m, goneOf(st.DeletedSet(), m)) || f.usersDue(st, m))
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
func (f *detail) grown() (rows, dead int) {
	return f.Trees.CorpusN, f.Trees.CorpusN - f.Trees.Points
}

// watching is a step of maintenance that measures the recall of a forest.
type watching struct {
	step
	p     *probes
	users *users
	curve *query.Curve
	tuned bool
	gone  int
}

// watch measures the recall of an index, and tunes again if it has fallen. rebuild is set if no setting
// reaches the recall of the build on the probes.
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
	s = &watching{step: step{m: m, v: x.(*opened).view}, p: p, gone: goneOf(st.DeletedSet(), m)}
	v, was := p.hide(s.v), m.Info.Curve
	var sets []query.QuerySet
	var short []bool
	err = timer.Run("probes", func(func(int, int)) error {
		if err := p.refresh(ctx, st, v, was.K); err != nil {
			return err
		}
		if s.users, err = usersOf(ctx, st, m, v, p); err != nil {
			return err
		}
		sets = append(sets, query.QuerySet{Queries: p.queries(v), Truth: p.truth})
		if len(s.users.Queries) > 0 {
			sets = append(sets, s.users.QuerySet)
		}
		s.curve, short, err = was.Recheck(ctx, v, sets...)
		return err
	})
	if err != nil {
		return nil, false, fail.Wrapf(kind.AsParameter(err), "measure recall")
	}
	if slices.Contains(short, true) {
		err := timer.Run("tune", func(report func(int, int)) error {
			rebuild, err = s.tune(ctx, st, v, sets, short, report)
			return err
		})
		if err != nil {
			return nil, false, fail.Wrapf(kind.AsParameter(err), "tune")
		}
	}
	c := s.curve
	c.Sampled = len(s.users.Queries)
	c.Queries, c.Rows, c.Measured = len(p.rows)+c.Sampled, m.Info.Rows-s.gone, time.Now().UTC()
	return s, rebuild, nil
}

// tune tunes the curve on the sets of queries for which it is short: the probes, and the users'. Users
// whose queries no setting answers well are no reason to rebuild.
func (s *watching) tune(ctx context.Context, st kind.Source, v *query.View, sets []query.QuerySet,
	short []bool, report func(int, int)) (rebuild bool, err error) {
	was := s.m.Info.Curve
	s.tuned = true
	curves := []*query.Curve{was}
	if sets[0].Truth, err = s.p.deepTruth(ctx, st, v); err != nil {
		return false, err
	}
	o := query.TuneOptions{K: was.K, Workers: kind.WorkersOf(ctx), Progress: report}
	if short[0] {
		if s.curve, err = query.Tune(ctx, v, sets[0], o); err != nil {
			return false, err
		}
		if rebuild = query.Falls(was, s.curve); rebuild || len(sets) == 1 {
			return rebuild, nil
		}
		curves = append(curves, s.curve)
	}
	if short[len(sets)-1] {
		c, err := query.Tune(ctx, v, s.users.QuerySet, o)
		if err != nil {
			return false, err
		}
		curves = append(curves, c)
	}
	s.curve, err = query.Safest(ctx, v, o.Workers, curves, sets...)
	return false, err
}

// deepTruth returns the answers of the probes, with as many rows as the tuner needs.
func (p *probes) deepTruth(ctx context.Context, st kind.Source, v *query.View) ([][]uint32, error) {
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
	return truth, err
}

func (s *watching) Rows() int { return len(s.p.rows) }

// Published implements kind.Recorder.
func (s *watching) Published() {
	u := s.users
	u.from.Measured(s.m.Info.Name, sample.Measurement{Taken: u.taken, Answers: u.known})
}

func (s *watching) Action() string {
	if s.tuned {
		return "tune"
	}
	return "measure"
}

// treeSections are the sections of the trees, builtSections all that only a build writes, forestSections
// those of a forest without its probes.
var (
	treeSections = []codec.Kind{codec.KindNodes, codec.KindLeafDir, codec.KindDirections, codec.KindLeaves,
		codec.KindMembers}
	builtSections  = append(slices.Clip(treeSections), codec.KindRotation, codec.KindCenters)
	forestSections = append(slices.Clip(builtSections), codec.KindNeighbors, codec.KindSketch, codec.KindQuantized)
)

// runsOf returns where the blocks of sections are that a step of maintenance does not write.
func (f *detail) runsOf(object uint64, sections []codec.Kind) map[codec.Kind][]arrays.Run {
	out := map[codec.Kind][]arrays.Run{}
	for _, section := range sections {
		if out[section] = f.Runs[section]; out[section] == nil {
			out[section] = []arrays.Run{{Object: object}}
		}
	}
	return out
}

// Emit writes the probes, and a manifest that refers to the other blocks where they are.
func (s *watching) Emit(object uint64, sink arrays.Sink) (*kind.Manifest, error) {
	s.removed = nil
	m, was := *s.m, detailOf(s.m)
	d := *was
	m.Object, m.Own, m.Info.Curve = object, &d, s.curve
	d.Runs = was.runsOf(s.m.Object, forestSections)
	w := arrays.NewWriter(object, sink)
	s.emitProbes(w, s.p)
	m.Info.Bytes = maps.Clone(s.m.Info.Bytes)
	maps.Copy(m.Info.Bytes, w.Sizes)
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
