package db

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/db/internal/kind/lcifindex"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// TestMaintainLCIF mixes puts, updates, deletes, changes of labels and payloads,
// maintenance and reopening at random. After every maintenance a label model's sums, lengths, priors and
// predictions, ties included, are those of a model in memory of the rows that
// there are, with the same weights and features, bit for bit; where it neither
// weighs nor selects, those of a new one, too.
func TestMaintainLCIF(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runs := 0
	actions := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		runs++
		path := filepath.Join(dir, fmt.Sprint(runs))
		open := func() *DB {
			d, err := Open(ctx, path, &Options{NoSync: true})
			must(t, err)
			return d
		}
		d := open()
		defer func() { _ = d.Close(); _ = os.Remove(path) }()
		dense := rapid.IntRange(0, 3).Draw(t, "dense") == 0
		signed := dense && rapid.Bool().Draw(t, "signed")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		width, names := rapid.SampledFrom([]int{12, 60}).Draw(t, "width"), 4
		if dense {
			must(t, create(ctx, d, "s", Schema{Dim: width}))
		} else {
			must(t, create(ctx, d, "s", Schema{Sparse: true}))
		}
		put := func(n, keys int) {
			must(t, d.Update(ctx, func(b *Tx) error {
				for _, k := range rng.Perm(keys)[:min(n, keys)] {
					r := Row{Key: fmt.Append(nil, k), Sparse: randomSparse(rng, rng.IntN(8), width)}
					for i := range r.Sparse.Value {
						r.Sparse.Value[i] = float32(1 + rng.IntN(3))
					}
					if dense {
						r.Vector = make([]float32, width)
						for i, f := range r.Sparse.Index {
							r.Vector[f] = r.Sparse.Value[i]
							if signed && rng.IntN(3) == 0 {
								r.Vector[f] = -r.Vector[f]
							}
						}
						r.Sparse = vector.Sparse{}
					}
					for range rng.IntN(4) {
						// Later names come first in the alphabet.
						if name := fmt.Sprint("l", 90-rng.IntN(names)); !slices.Contains(r.Labels, name) {
							r.Labels = append(r.Labels, name)
						}
					}
					if err := b.Collection("s").Put(r); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		p := &lcif.Params{
			K: 1 + rng.IntN(12), Alpha: []float64{0.5, 1, 1.5}[rng.IntN(3)], Beta: []float64{0.5, 1, 1.5, 2, 0.8, 5}[rng.IntN(6)],
			Lambda: []float64{0, 0.4, 1}[rng.IntN(3)],
		}
		o := &LCIF{Params: p, Neighbors: Flat}
		if rng.IntN(2) == 0 {
			p.SecondOrder = []float64{0.3, 1}[rng.IntN(2)]
		}
		plain := true
		if !dense {
			o.Neighbors = ""
			switch rng.IntN(3) {
			case 0:
				o.Weight, plain = "tfidf", false
			case 1:
				p.Features, plain = width/2, false
			}
		}
		if rng.IntN(2) == 0 {
			p.Thresholds = &labels.Thresholds{Single: 0.2, KeepTop: true}
		}
		put(rng.IntN(120)+20, 150)
		_, err := d.Collection("s").Build(ctx, "kept", o, nil)
		must(t, err)
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			if names += rng.IntN(3); !dense {
				width += rng.IntN(5) // features that the model does not know
			}
			switch rng.IntN(4) {
			case 0:
				put(rng.IntN(60)+1, 250)
			case 1, 2:
				put(rng.IntN(10)+1, 5000)
			}
			must(t, d.Update(ctx, func(b *Tx) error {
				for _, k := range rng.Perm(250)[:rng.IntN(2)*rng.IntN(60)] {
					if err := b.Collection("s").Delete(fmt.Append(nil, k)); err != nil {
						return err
					}
				}
				return nil
			}))
			must(t, relabelSome(ctx, d, rng, names))
			if rng.IntN(4) == 0 {
				must(t, d.Close())
				d = open()
			}
			steps, err := d.Maintain(ctx, 0, nil)
			must(t, err)
			for _, s := range steps {
				actions[s.Action]++
				if plain && s.Action == "relearn" {
					t.Fatal("relearned without need")
				}
			}
			fresh := plain
			if fresh {
				if _, err = d.Collection("s").Build(ctx, "fresh", o, nil); errors.Is(err, fail.Empty) {
					fresh = false // no labels are left
				} else {
					must(t, err)
				}
			}
			must(t, d.View(func(s *Snapshot) error { return sameModel(ctx, t, s, rng, width, fresh) }))
			if fresh {
				must(t, d.Collection("s").DropIndex(ctx, "fresh"))
			}
			if again, err := d.Maintain(ctx, 0, nil); err != nil || len(again) > 0 {
				t.Fatalf("maintenance at once again: %v, %v", again, err)
			}
		}
		must(t, d.Check(ctx, func(p *CorruptError) { t.Log(p) }, nil))
		must(t, mustLeaveNothing(d))
		must(t, d.View(func(s *Snapshot) error { return mustUseAll(t, s) }))
	})
	for _, a := range []string{"segment", "merge", "forget", "relabel", "relearn"} {
		if actions[a] == 0 && runs >= 50 {
			t.Errorf("no step of kind %q: %v", a, actions)
		}
	}
}

// relabelSome gives none, some or many rows other labels or payloads.
func relabelSome(ctx context.Context, d *DB, rng *rand.Rand, names int) error {
	n := []int{0, 3, 60}[rng.IntN(3)]
	return d.Update(ctx, func(b *Tx) error {
		for _, k := range rng.Perm(250)[:n] {
			var set []string
			for range rng.IntN(3) {
				set = append(set, fmt.Sprint("l", 90-rng.IntN(names)))
			}
			key := fmt.Append(nil, k)
			err := b.Collection("s").SetLabels(key, set...)
			if rng.IntN(3) == 0 {
				err = b.Collection("s").SetPayload(key, []byte("changed"))
			}
			if err != nil && !errors.Is(err, fail.NoRow) {
				return err
			}
		}
		return nil
	})
}

// TestMaintainLCIFRewrites deletes much of a segment while rows are added, too: the
// segment is rewritten after the step that inserts these, and the model stays exact.
func TestMaintainLCIFRewrites(t *testing.T) {
	for _, weight := range []float64{0, 0.4} {
		ctx := t.Context()
		d, err := Open(t.Context(), filepath.Join(t.TempDir(), "a.anndb"), &Options{NoSync: true})
		must(t, err)
		rng := rand.New(rand.NewPCG(7, 8))
		put := func(from, to int) func() error {
			return func() error {
				return d.Update(ctx, func(b *Tx) (err error) {
					for i := from; i < to && err == nil; i++ {
						err = b.Collection("s").Put(Row{
							Key: fmt.Append(nil, i), Sparse: randomSparse(rng, 6, 80), Labels: []string{fmt.Sprint("l", rng.IntN(5))},
						})
					}
					return err
				})
			}
		}
		drop := func() error {
			return d.Update(ctx, func(b *Tx) (err error) {
				for i := 0; i < 80 && err == nil; i++ {
					err = b.Collection("s").Delete(fmt.Append(nil, i))
				}
				return err
			})
		}
		o := &LCIF{Params: &lcif.Params{K: 5, Lambda: 0.3, SecondOrder: weight}}
		err = errorsOf(
			func() error { return create(ctx, d, "s", Schema{Sparse: true}) },
			put(0, 200),
			func() error { _, err := d.Collection("s").Build(ctx, "kept", o, nil); return err },
			drop, put(200, 205),
		)
		must(t, err)
		for _, want := range [][]string{{"segment", "rewrite"}, nil} {
			steps, err := d.Maintain(ctx, 0, nil)
			var got []string
			for _, s := range steps {
				got = append(got, s.Action)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("weight %g: steps %q, want %q: %v", weight, got, want, err)
			}
		}
		err = d.View(func(s *Snapshot) error {
			st := s.gen.Collections["s"]
			m, err1 := st.ManifestOf(st.Entry.Index("kept"))
			a, err2 := lcifindex.ReadArrays(ctx, st, m)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if s := lcifDetail(t, m).Segments; len(s) != 2 || s[0].Dead != 80 {
				t.Errorf("weight %g: segments %+v", weight, s)
			}
			_, counts, names, err := inMemory(ctx, st, a, m)
			if err != nil {
				return err
			}
			return errors.Join(samePairs(a, m, counts, names), mustUseAll(t, s))
		})
		if err = errors.Join(err, mustCheck(d), d.Close()); err != nil {
			t.Error(err)
		}
	}
}

// mustUseAll says whether every array of a label model's objects is one that the
// model uses.
func mustUseAll(t rapid.TB, s *Snapshot) error {
	t.Helper()
	st := s.gen.Collections["s"]
	r := st.Entry.Index("kept")
	m, err := st.ManifestOf(r)
	if err != nil {
		return err
	}
	d := lcifDetail(t, m)
	base := cmp.Or(d.Base, m.Object)
	c := s.gen.Tx.Bucket(layout.BucketBlocks).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		object, kind, n := codec.ParseKey(k)
		if !slices.Contains(r.Objects(), object) {
			continue
		}
		segment := slices.ContainsFunc(d.Segments, func(g lcifSegment) bool { return g.Object == object })
		used := object == m.Object
		home := object == base
		// What there is once stays in an object with pairs or of a build until
		// these go.
		once := used || home
		switch kind {
		case codec.KindManifest:
			used = true // goes with the object
		case codec.KindPostings:
			used = segment
		case codec.KindLabelMatrix:
			relabelled := n >= arrayRelabelledRow && n <= arrayRelabelledLabel
			used = once && n > arrayLabelLabel && !relabelled || segment && n <= arrayLabelLabel ||
				object == m.Object && relabelled
		case codec.KindSimilarity:
			pair := n <= arraySum || n == arrayPower || n == arrayPowerStart
			patch := n >= arrayPatchPtr && n <= arrayPatchPower || n == arrayPatchStart
			used = pair && home || patch && used || !pair && !patch && once
		}
		if !used {
			return fmt.Errorf("%v %d of object %d is of no use", kind, n, object)
		}
	}
	return nil
}

// sameModel compares the model "kept" with one in memory and, if asked, with
// "fresh".
func sameModel(ctx context.Context, t *rapid.T, s *Snapshot, rng *rand.Rand, width int, fresh bool) error {
	st := s.gen.Collections["s"]
	m, err := st.ManifestOf(st.Entry.Index("kept"))
	if err != nil {
		return err
	}
	kept, err := st.OpenIndex(context.Background(), st.Entry.Index("kept"))
	if err != nil {
		return err
	}
	a, err := lcifindex.ReadArrays(context.Background(), st, m)
	if err != nil {
		return err
	}
	if m.Info.Rows != int(st.Entry.Rows) {
		t.Fatalf("model covers %d of %d rows", m.Info.Rows, st.Entry.Rows)
	}
	var relabelled []uint32
	arrays.Field(st.Arrays(ctx, "kept", m.Object).Section(codec.KindLabelMatrix), arrayRelabelledRow, &relabelled)
	if n := len(relabelled); float64(n) > kind.Drift*float64(m.Info.Rows) {
		t.Fatalf("%d of %d rows are relabelled outside of their segments", n, m.Info.Rows)
	}
	view, counts, names, err := inMemory(ctx, st, a, m)
	if err != nil {
		return err
	}
	if err := samePairs(a, m, counts, names); err != nil {
		return err
	}
	params := *paramsOf(m)
	if params.Thresholds != nil && rng.IntN(2) == 0 {
		params.Thresholds = &labels.Thresholds{Single: params.Thresholds.Single}
	}
	for range 6 {
		q := randomSparse(rng, 1+rng.IntN(8), width)
		for i := range q.Value {
			if !st.Entry.Sparse && rng.IntN(4) == 0 {
				q.Value[i] = -q.Value[i]
			}
		}
		for _, top := range []int{0, 1 + rng.IntN(5)} {
			params.Top = top
			x := vector.Sparse{Index: q.Index, Value: slices.Clone(q.Value)}
			if a.IDF != nil {
				labelled.Weigh(x, a.IDF)
			}
			want, _, err := lcif.NewPredictor().Predict(ctx, view, x, &params, nil)
			if err != nil {
				return err
			}
			asked := Query{Sparse: q}
			if !st.Entry.Sparse {
				asked = Query{Vector: make([]float32, st.Entry.Dim)}
				for i, f := range q.Index {
					asked.Vector[f] = q.Value[i]
				}
			}
			compare := []string{"kept"}
			if fresh {
				compare = append(compare, "fresh")
			}
			for _, index := range compare {
				got, _, err := predict(ctx, s.Collection("s"), asked, &PredictOptions{Index: index, Params: &params})
				if err != nil {
					return err
				}
				same := slices.EqualFunc(got, want, func(a Prediction, b labels.Ranked) bool {
					return a.Label == names[b.Label] && math.Float32bits(a.Score) == math.Float32bits(b.Score)
				})
				if !same {
					t.Fatalf("%s, top %d, query %v: %v, want %v of %q", index, top, q, got, want, names)
				}
				// Two together share reading the pairs.
				both, err := predictBatch(ctx, s.Collection("s"), []Query{asked, asked}, &PredictOptions{Index: index, Params: &params}, 1)
				if err != nil {
					return err
				}
				if !slices.Equal(both[0], got) || !slices.Equal(both[1], got) {
					t.Fatalf("%s, top %d, query %v: %v together, %v alone", index, top, q, both, got)
				}
			}
		}
	}
	return kept.Opened.Check(ctx)
}

// inMemory is a model of the live rows with the weights and features of a stored
// one.
func inMemory(ctx context.Context, st *state.Collection, a *lcifindex.Arrays, m *kind.Manifest) (*lcif.View, *labels.FeatureLabels, []string, error) {
	b, err := labels.NewBuilder(nil)
	if err != nil {
		return nil, nil, nil, err
	}
	rows := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	labelsOf := st.LabelReader()
	for row := range st.Entry.Rows {
		if st.Deleted(row) {
			rows.Append(vector.Sparse{})
			b.Add(nil)
			continue
		}
		var x vector.Sparse
		if st.Entry.Sparse {
			x = st.SparseRow(row)
			x = vector.Sparse{Index: x.Index, Value: slices.Clone(x.Value)}
			if a.IDF != nil {
				labelled.Weigh(x, a.IDF)
			}
		} else {
			x = kind.Listed(st.DenseRow(int(row), make([]float32, st.Entry.Dim)))
		}
		rows.Append(x)
		own, err := labelsOf(row)
		if err != nil {
			return nil, nil, nil, err
		}
		b.Add(own)
	}
	rows.Cols = m.Dim
	names := b.Names()
	view := &lcif.View{
		Features: m.Dim, Keep: a.Keep, Labels: b.Matrix(),
		Before: func(a, b uint32) bool { return names[a] < names[b] },
	}
	units := lcif.UnitRows(rows, view)
	counted := &vector.CSR{Ptr: units.Ptr, Index: units.Index, Value: slices.Clone(units.Value), Cols: units.Cols}
	for i, x := range counted.Value {
		counted.Value[i] = max(0, x)
	}
	counts, err := labels.CountFeatureLabels(ctx, counted, b.Matrix(), 1)
	if err != nil {
		return nil, nil, nil, err
	}
	if st.Entry.Sparse {
		index, err := postings.Build(ctx, units, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		view.Neighbors = &lcif.PostingsNeighbors{Index: index}
	} else {
		all, err := st.Rows(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		view.Neighbors = lcif.NewForestNeighbors(all, query.Params{Method: query.Flat}, nil)
	}
	view.Row = func(row uint32) vector.Sparse { return rows.Row(int(row)) }
	return view, counts, names, view.SetPower(counts, storedPower(m))
}

// paramsOf returns the parameters of a stored label model.
func paramsOf(m *kind.Manifest) *lcif.Params { return publicInfo("", m).Options.(*LCIF).Params }

// storedPower returns the exponent of the powers that a label model stores.
func storedPower(m *kind.Manifest) float64 { return labels.StoredPower(cmp.Or(paramsOf(m).Beta, 1)) }

// samePairs compares the stored sums, lengths and priors with counted ones.
func samePairs(a *lcifindex.Arrays, m *kind.Manifest, counts *labels.FeatureLabels, names []string) error {
	number := map[string]uint32{}
	for i, name := range names {
		number[name] = uint32(i)
	}
	stored := &labels.FeatureLabels{Ptr: a.Patch.Ptr, Label: a.Patch.Label, Sum: a.PatchSum, Rows: a.Rows}
	for i := 0; i < len(a.Square); i += 2 {
		stored.Square = append(stored.Square, labels.Uint128{Hi: a.Square[i], Lo: a.Square[i+1]})
	}
	whole := (&labels.Patched{Base: &labels.FeatureLabels{Ptr: a.Base.Ptr, Label: a.Base.Label, Sum: a.BaseSum}, Patch: stored}).Whole()
	if !slices.Equal(whole.Square, counts.Square) {
		return errors.New("lengths of features differ")
	}
	for i, n := range whole.Rows {
		if l, ok := number[string(a.Names.At(i))]; ok && counts.Rows[l] != n || !ok && n != 0 {
			return fmt.Errorf("label %q has %d rows", a.Names.At(i), n)
		}
	}
	if len(whole.Label) != len(counts.Label) {
		return fmt.Errorf("%d pairs, want %d", len(whole.Label), len(counts.Label))
	}
	powers, err := counts.Powers(storedPower(m))
	if err != nil {
		return err
	}
	for f := range whole.Features() {
		for e := whole.Ptr[f]; e < whole.Ptr[f+1]; e++ {
			l := number[string(a.Names.At(int(whole.Label[e])))]
			at, ok := slices.BinarySearch(counts.Label[counts.Ptr[f]:counts.Ptr[f+1]], l)
			if !ok || counts.Sum[int(counts.Ptr[f])+at] != whole.Sum[e] {
				return fmt.Errorf("feature %d and label %d have the sum %d", f, l, whole.Sum[e])
			}
			stored := labels.Powers{Beta: powers.Beta, Parts: []labels.Pairs{*a.Base, *a.Patch}, Feature: a.Feature, Label: a.Label}
			if x, y := stored.At(f, int(whole.Label[e])), powers.At(f, int(l)); x != y {
				return fmt.Errorf("feature %d and label %d have the similarity %g, want %g", f, l, x, y)
			}
		}
	}
	return nil
}

// TestMaintainLCIFPairs changes so many pairs of features and labels that they
// are rewritten, and few at other times; a small change writes little.
func TestMaintainLCIFPairs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d, err := Open(ctx, filepath.Join(t.TempDir(), "a.anndb"), &Options{NoSync: true})
	must(t, err)
	defer d.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	n := 0
	put := func(rows int) error {
		return d.Update(ctx, func(b *Tx) error {
			for range rows {
				r := Row{Key: fmt.Append(nil, n), Sparse: randomSparse(rng, 20, 3000), Labels: []string{fmt.Sprint("a", rng.IntN(60)), fmt.Sprint("b", rng.IntN(60))}}
				if err := b.Collection("s").Put(r); err != nil {
					return err
				}
				n++
			}
			return nil
		})
	}
	o := &LCIF{Params: &lcif.Params{K: 5, Lambda: 0.3}}
	err = errorsOf(
		func() error { return create(ctx, d, "s", Schema{Sparse: true}) },
		func() error { return put(2000) },
		func() error { _, err := d.Collection("s").Build(ctx, "kept", o, nil); return err },
	)
	must(t, err)
	base := func() (own bool, pairs, patched int) {
		err := d.View(func(s *Snapshot) error {
			st := s.gen.Collections["s"]
			m, err := st.ManifestOf(st.Entry.Index("kept"))
			if err != nil {
				return err
			}
			a, err := lcifindex.ReadArrays(context.Background(), st, m)
			if err != nil {
				return err
			}
			own, pairs, patched = lcifDetail(t, m).Base == 0, len(a.Base.Label), len(a.Patch.Label)
			return nil
		})
		must(t, err)
		return own, pairs, patched
	}
	_, before, _ := base()
	whole, patched := 0, 0
	for range 12 {
		must(t, put(40))
		steps, err := d.Maintain(ctx, 0, nil)
		if err != nil || len(steps) != 1 || steps[0].Action == "relearn" {
			t.Fatalf("steps %v, %v", steps, err)
		}
		own, pairs, n := base()
		if own {
			whole++
		} else if patched++; n == 0 || n > pairs/2 {
			t.Errorf("%d of %d pairs in the patch", n, pairs)
		}
	}
	if _, after, _ := base(); whole == 0 || patched < 2*whole || after <= before {
		t.Errorf("pairs were rewritten %d times, patched %d times; %d of them, %d before", whole, patched, after, before)
	}
	err = d.View(func(s *Snapshot) error {
		st := s.gen.Collections["s"]
		m, err1 := st.ManifestOf(st.Entry.Index("kept"))
		a, err2 := lcifindex.ReadArrays(context.Background(), st, m)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		_, counts, names, err := inMemory(ctx, st, a, m)
		return errors.Join(err, samePairs(a, m, counts, names), mustUseAll(t, s))
	})
	if err = errors.Join(err, mustCheck(d)); err != nil {
		t.Error(err)
	}
}

// TestMaintainLCIFThresholds keeps each label's threshold its own, whatever
// numbers labels have after a model was relearned, by maintenance or because
// rows were renumbered.
func TestMaintainLCIFThresholds(t *testing.T) {
	ctx := t.Context()
	d, err := Open(ctx, filepath.Join(t.TempDir(), "a.anndb"), &Options{NoSync: true})
	must(t, err)
	defer d.Close()
	put := func(key, label string, f uint32) error {
		return d.Update(ctx, func(b *Tx) error {
			return b.Collection("s").Put(Row{Key: []byte(key), Sparse: vector.Sparse{Index: []uint32{f}, Value: []float32{1}}, Labels: []string{label}})
		})
	}
	limits := &labels.Thresholds{Single: 0.5, PerLabel: []float64{0.1, 3}}
	o := &LCIF{Weight: "tfidf", Params: &lcif.Params{K: 1, Lambda: 1, Thresholds: limits}}
	err = errorsOf(
		func() error { return create(ctx, d, "s", Schema{Sparse: true}) },
		func() error { return put("1", "low", 0) },
		func() error { return put("2", "high", 1) },
		func() error { _, err := d.Collection("s").Build(ctx, "kept", o, nil); return err },
		// The label of the first row goes and comes back behind the other one.
		func() error { return put("1", "low", 0) },
		func() error { return put("3", "new", 2) },
	)
	must(t, err)
	steps, err := d.Maintain(ctx, 0, nil)
	if err != nil || len(steps) != 1 || steps[0].Action != "relearn" {
		t.Fatalf("steps %v, %v", steps, err)
	}
	verify := func() {
		t.Helper()
		for f, want := range []string{"low", "", "new"} {
			var got []byte
			err := d.View(func(s *Snapshot) error {
				out, _, err := predict(ctx, s.Collection("s"), Query{Sparse: vector.Sparse{Index: []uint32{uint32(f)}, Value: []float32{1}}}, nil)
				for _, p := range out {
					got = fmt.Append(got, p.Label)
				}
				return err
			})
			if err != nil || !bytes.Equal(got, []byte(want)) {
				t.Errorf("feature %d: %q, want %q, %v", f, got, want, err)
			}
		}
	}
	verify()
	// Rows get new numbers, the label that was the first comes last.
	err = errorsOf(
		func() error { return put("2", "high", 1) },
		func() error { return d.Compact(ctx, nil) },
		func() error { return mustCheck(d) },
	)
	must(t, err)
	if c, err := d.Collections(); err != nil || c[0].Rows != 3 {
		t.Errorf("collections %+v, %v", c, err)
	}
	verify()
}
