package db

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// kindToy is a kind of index that is added here: a copy of a sparse collection's rows
// at unit length, which a search compares with one by one.
const kindToy = "toy"

func init() {
	kinds[kindToy] = registered{toyKind{}, func(kind.Options) IndexOptions { return &Toy{} }}
}

type toyKind struct{}

func (toyKind) Suits(sparse bool) bool { return sparse }
func (toyKind) Predicts() bool         { return false }
func (toyKind) Detail() kind.Detail    { return &toyManifest{} }
func (toyKind) Options() kind.Options  { return &Toy{} }
func (toyKind) Again(_ context.Context, _ kind.Source, m *kind.Manifest) kind.Options {
	return m.Options
}

// Toy are its options.
type Toy struct{}

func (o *Toy) request(bool) (kind.Options, error) { return o, nil }
func (*Toy) Name() string                         { return kindToy }
func (*Toy) Limits(string, int) error             { return nil }
func (o *Toy) After(kind.Options) kind.Options    { return o }

// toyManifest is the detail of a toy.
type toyManifest struct {
	kind.PlainDetail
	Cols int
}

func (d *toyManifest) FeatureCount() int          { return d.Cols }
func (d *toyManifest) Check(*kind.Manifest) error { return nil }

// toy is a copy on its way to the file.
type toy struct {
	rows    *vector.CSR
	n, live int
}

func newToy(ctx context.Context, st kind.Source) (*toy, error) {
	set, err := st.Sparse(ctx)
	if err != nil {
		return nil, err
	}
	t := &toy{n: set.N, live: set.Live}
	t.rows, _, err = set.Matrix(ctx, 0, set.N, st.Collection().Dim, func(int, int) {})
	return t, err
}

func (toyKind) Build(ctx context.Context, job *kind.Job) (_ kind.Built, err error) {
	var t *toy
	err = job.Latest(func(st kind.Source) error { t, err = newToy(ctx, st); return err })
	return t, err
}

func (toyKind) Absorb(ctx context.Context, st kind.Source, m *kind.Manifest, _ *kind.Timer) (kind.Step, bool, error) {
	t, err := newToy(ctx, st)
	return &toyStep{t, m}, false, err
}

func (t *toy) Describe(m *kind.Manifest) {
	m.Options, m.Info.Rows, m.Info.TrainingPoints = &Toy{}, t.n, t.live
}

func (t *toy) Emit(object uint64, sink arrays.Sink) (*kind.Manifest, error) {
	w := arrays.NewWriter(object, sink)
	toyArrays(w.Section(codec.KindPostings), t.rows)
	m := &kind.Manifest{Object: object, Metric: vector.Cosine, Dim: t.rows.Cols, Own: &toyManifest{Cols: t.rows.Cols}}
	m.Info.Bytes = w.Sizes
	return m, w.Err
}

func toyArrays(a *arrays.Section, rows *vector.CSR) {
	arrays.Field(a, 0, &rows.Ptr)
	arrays.Field(a, 1, &rows.Index)
	arrays.Field(a, 2, &rows.Value)
}

type toyStep struct {
	*toy
	was *kind.Manifest
}

func (s *toyStep) Action() string { return "copy" }

func (*toyStep) Objects() int             { return 1 }
func (*toyStep) Parts() []uint64          { return nil }
func (*toyStep) Garbage() []kind.BlockRef { return nil }
func (s *toyStep) Rows() int              { return s.n }

func (s *toyStep) Emit(object uint64, sink arrays.Sink) (*kind.Manifest, error) {
	m, err := s.toy.Emit(object, sink)
	if err != nil {
		return nil, err
	}
	bytes := m.Info.Bytes
	m.Info = s.was.Info
	m.Info.Bytes = bytes
	s.Describe(m)
	return m, nil
}

// toyIndex is a copy as one generation sees it.
type toyIndex struct {
	st   kind.Source
	rows *vector.CSR
}

func (toyKind) Open(ctx context.Context, st kind.Source, m *kind.Manifest) (kind.Opened, error) {
	r := st.Arrays(ctx, m.Info.Name, m.Object)
	rows := &vector.CSR{Cols: m.Own.(*toyManifest).Cols}
	toyArrays(r.Section(codec.KindPostings), rows)
	r.Need(rows.Rows() == m.Info.Rows && rows.Validate() == nil, "rows")
	return &toyIndex{st, rows}, r.Err
}

func (x *toyIndex) Check(context.Context) error { return x.rows.Validate() }

func (x *toyIndex) Find(_ context.Context, _ *postings.Searcher, q kind.SparseAsk, hits []postings.Hit) ([]postings.Hit, postings.Stats, error) {
	for i := range x.rows.Rows() {
		row := uint32(i)
		if x.st.Deleted(row) || q.Accept != nil && !q.Accept.Contains(row) {
			continue
		}
		if score := vector.DotSparse(q.X, x.rows.Row(i)); score > 0 {
			hits = append(hits, postings.Hit{Row: row, Score: score})
		}
	}
	return hits, postings.Stats{}, nil
}

// TestToyKind adds a kind of index and gets building, searching, maintenance, checks,
// repair, compaction and statistics for it.
func TestToyKind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toy.anndb")
	rng := rand.New(rand.NewPCG(1, 2))
	put := func(d *DB, from, to int) {
		t.Helper()
		err := d.Update(t.Context(), func(b *Tx) error {
			for i := from; i < to; i++ {
				if err := b.Collection("s").Put(Row{Key: fmt.Append(nil, i), Sparse: randomSparse(rng, 8, 40)}); err != nil {
					return err
				}
			}
			return nil
		})
		must(t, err)
	}
	// same fails unless the index covers n rows and finds what a scan does.
	same := func(d *DB, n, fresh int) {
		t.Helper()
		err := d.View(func(s *Snapshot) error {
			info, err := s.Collection("s").Index("x")
			if err != nil || info.Rows != n || info.Bytes["postings"] == 0 {
				t.Errorf("index %+v: %v", info, err)
			}
			q := Query{Sparse: randomSparse(rng, 8, 40)}
			want, _, err := nearest(t.Context(), s.Collection("s"), q, 9, &SearchOptions{Index: Flat})
			got, stats, err2 := nearest(t.Context(), s.Collection("s"), q, 9, nil)
			if err != nil || err2 != nil || len(got) == 0 || stats.Fresh != fresh || !reflect.DeepEqual(got, want) {
				t.Errorf("%d rows scanned: found %+v, want %+v: %v, %v", stats.Fresh, got, want, err, err2)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	var object uint64
	withFile(t, path, func(d *DB, _ *Snapshot) {
		if _, err := d.Create(t.Context(), "s", Schema{Sparse: true}); err != nil {
			t.Fatal(err)
		}
		put(d, 0, 50)
		builds(t, d, "s", "x", &Toy{})
		same(d, 50, 0)
		put(d, 40, 60)
		same(d, 50, 20)
		steps, err := d.Maintain(t.Context(), 0, nil)
		if err != nil || len(steps) != 1 || steps[0].Action != "copy" {
			t.Errorf("steps %+v: %v", steps, err)
		}
		same(d, 70, 0)
		if st, err := d.Stats(); err != nil || st.Indexes[0].Rows != 70 || st.Indexes[0].Segments != 1 {
			t.Errorf("stats %+v: %v", st.Indexes, err)
		}
	})
	object = objectIn(t, path, "s", "x")
	putBlock(t, path, layout.BucketBlocks, codec.Key(object, codec.KindPostings, 1), make([]byte, 8))
	withFile(t, path, func(d *DB, _ *Snapshot) {
		if d.Check(t.Context(), nil, nil) == nil {
			t.Error("damage was not found")
		}
		if found, err := d.Repair(t.Context(), nil); err != nil || len(found) != 1 || found[0].Index != "x" {
			t.Errorf("repaired %+v: %v", found, err)
		}
		same(d, 70, 0)
	})
	withFile(t, path, func(d *DB, s *Snapshot) {
		put(d, 0, 35) // so that a third of the row numbers is of deleted rows
		s.Release()
		if err := d.Compact(t.Context(), nil); err != nil {
			t.Error(err)
		}
		same(d, 60, 0)
		if err := d.Check(t.Context(), func(p *CorruptError) { t.Error(p) }, nil); err != nil {
			t.Error(err)
		}
	})
}
