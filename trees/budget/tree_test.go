package budget

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// xor is the data of section 8.1.1: two features N(0,1), whose signs make the
// class, and noise features U(0,1).
func xor(n, noise int, seed uint64) (*vector.CSR, []int8) {
	rng := rand.New(rand.NewPCG(seed, 8))
	m := noise + 2
	x := &vector.CSR{Ptr: make([]uint64, 1, n+1), Cols: m}
	x.Index = make([]uint32, 0, n*m)
	x.Value = make([]float32, 0, n*m)
	y := make([]int8, n)
	for i := range n {
		a, b := rng.NormFloat64(), rng.NormFloat64()
		x.Value = append(x.Value, float32(a), float32(b))
		for range noise {
			x.Value = append(x.Value, rng.Float32())
		}
		for j := range m {
			x.Index = append(x.Index, uint32(j))
		}
		x.Ptr = append(x.Ptr, uint64(len(x.Index)))
		y[i] = -1
		if (a > 0) == (b > 0) {
			y[i] = 1
		}
	}
	return x, y
}

// classesOf is the numbers of the classes -1 and 1: 0 and 1.
func classesOf(y []int8) []uint32 {
	class := make([]uint32, len(y))
	for i, v := range y {
		class[i] = uint32(max(0, v))
	}
	return class
}

// errorRate is the share of rows that an SBT has wrong.
func errorRate(m *Model, x *vector.CSR, y []int8, rows []int) float64 {
	p := NewPredictor(NewIndex(m))
	wrong, n := 0, 0
	count := func(i int) {
		c, _ := p.Class(x.Row(i))
		if (c == 1) != (y[i] > 0) {
			wrong++
		}
		n++
	}
	if rows == nil {
		for i := range y {
			count(i)
		}
	}
	for _, i := range rows {
		count(i)
	}
	return float64(wrong) / float64(n)
}

// No linear classifier does better than half on exclusive or; below a first split, however bad, two do.
func TestSBTLearnsXOR(t *testing.T) {
	x, y := xor(1500, 30, 1)
	test, ty := xor(1000, 30, 2)
	m, err := Train(t.Context(), SBT, Job{X: x, Class: classesOf(y), Classes: 2, Params: Params{BAC: BACParams{Budget: 1, C: 1}}})
	must(t, err)
	must(t, m.Validate())
	if e := errorRate(m, test, ty, nil); e > 0.25 {
		t.Errorf("test error %v", e)
	}
	s := m.Stats()
	if s.Depth < 2 || s.Features < 2 || m.Features[0] != 0 || m.Features[1] != 1 {
		t.Errorf("%+v, features %v", s, m.Features)
	}
}

// A linear problem gives one node: its children are pruned or never grown.
func TestSBTLinearIsSmall(t *testing.T) {
	x, y := blobs(300, 50, 5, 0.5, 1)
	test, ty := blobs(600, 50, 5, 0.5, 2)
	for i := 0; i < len(y); i += 7 {
		y[i] = -y[i] // noise that only overfitting follows
	}
	params := Params{BAC: BACParams{Budget: 5}}
	pruned, err := Train(t.Context(), SBT, Job{X: x, Class: classesOf(y), Classes: 2, Params: params})
	must(t, err)
	params.NoPrune = true
	grown, err := Train(t.Context(), SBT, Job{X: x, Class: classesOf(y), Classes: 2, Params: params})
	must(t, err)
	if a, b := pruned.Nodes(), grown.Nodes(); a > 7 || b <= a {
		t.Errorf("%d nodes pruned, %d grown", a, b)
	}
	if a, b := errorRate(pruned, test, ty, nil), errorRate(grown, test, ty, nil); a > 0.15 || a > b+0.02 {
		t.Errorf("test error %v pruned, %v grown", a, b)
	}
}

// Training rows go where the vote of the folds sends them, as rows do in
// prediction, not where a single fold does.
func TestSBTRoutesByVote(t *testing.T) {
	x, y := blobs(200, 60, 3, 0.5, 2)
	params, err := Params{BAC: BACParams{Budget: 10}}.withDefaults()
	must(t, err)
	s := &sbt{x: x, rows: positions(len(y)), params: params, pool: newPool(len(y), nil)}
	g := &grown{}
	n := &sbtNode{g: g, train: s.rows, test: s.rows, y: y, seed: 1}
	parted, err := s.part(t.Context(), &worker{scratch: newScratch(x.Cols)}, n)
	must(t, err)
	apart := 0
	for i := range y {
		votes, first := 0, false
		for v, b := range g.offsets {
			margin := float64(b)
			for k, f := range g.features {
				margin += float64(g.weights[k*len(g.offsets)+v]) * float64(valueOf(x, int32(i), f))
			}
			if margin > 0 {
				votes++
			}
			if v == 0 {
				first = margin > 0
			}
		}
		vote := 2*votes > len(g.offsets)
		if vote != first {
			apart++
		}
		if slices.Contains(parted.train[0], int32(i)) != vote || slices.Contains(parted.train[1], int32(i)) == vote {
			t.Errorf("row %d: %d of %d votes", i, votes, len(g.offsets))
		}
	}
	if apart < 5 {
		t.Errorf("only %d rows where the first fold is outvoted", apart)
	}
}

// Children stay only where they have fewer errors than the node: on equal errors they
// go, and so does the node's own decision.
func TestPruneTies(t *testing.T) {
	leaf := func(wrong int) *grown { return &grown{rows: 50, wrong: wrong, errors: wrong, class: 1} }
	node := func(wrong, errors int, left, right *grown) *grown {
		return &grown{rows: 50, wrong: wrong, errors: errors, class: 1, left: left, right: right}
	}
	for _, c := range []struct {
		name        string
		root        *grown
		left, nodes int // errors that are left, and nodes with leaves
	}{
		{"fewer errors behind", node(20, 10, node(9, 5, leaf(2), leaf(2)), leaf(4)), 8, 5},
		{"as many errors behind", node(20, 10, node(9, 6, leaf(3), leaf(2)), leaf(5)), 10, 3},
		{"more errors behind", node(20, 10, node(9, 6, leaf(3), leaf(2)), leaf(6)), 10, 3},
		{"a decision no better than the majority", node(10, 10, node(9, 6, leaf(3), leaf(4)), leaf(9)), 10, 1},
		{"a tree no better than the majority", node(10, 12, node(9, 6, leaf(3), leaf(2)), leaf(5)), 10, 1},
	} {
		left := prune(c.root)
		nodes := 0
		each([]*grown{c.root}, func(*grown) { nodes++ })
		if left != c.left || nodes != c.nodes {
			t.Errorf("%s: %d errors in %d nodes and leaves, want %d in %d", c.name, left, nodes, c.left, c.nodes)
		}
	}
}

// Of equally frequent labels AT asks for the smallest first.
func TestATTies(t *testing.T) {
	sets := [][]uint32{{2}, {1}, {3}, {1}, {3}, {2}, {0}}
	rows := make([][]float32, len(sets))
	for i, s := range sets {
		rows[i] = make([]float32, 4)
		rows[i][s[0]] = 1
	}
	y, err := labels.FromSets(sets, 4)
	must(t, err)
	m, err := Train(t.Context(), AT, Job{X: dense(rows), Sets: y, Params: Params{BAC: BACParams{Budget: 4, C: 10}}})
	must(t, err)
	if !slices.Equal(m.NodeLabel, []uint32{1, 2, 3}) {
		t.Errorf("AT asks for %v", m.NodeLabel)
	}
}

// The folds of a tree share their sets when algorithm 1 runs to its end, too.
func TestSBTExact(t *testing.T) {
	x, y := blobs(200, 60, 4, 0.5, 3)
	test, ty := blobs(400, 60, 4, 0.5, 4)
	m, err := Train(t.Context(), SBT, Job{X: x, Class: classesOf(y), Classes: 2, Params: Params{BAC: BACParams{Budget: 4, C: 0.1, Exact: true}}})
	must(t, err)
	must(t, m.Validate())
	if e := errorRate(m, test, ty, nil); e > 0.15 {
		t.Errorf("test error %v", e)
	}
}

func TestMulticlass(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	make3 := func(n int) (*vector.CSR, []uint32) {
		rows := make([][]float32, n)
		class := make([]uint32, n)
		for i := range rows {
			class[i] = uint32(i % 3)
			rows[i] = make([]float32, 20)
			for j := range rows[i] {
				rows[i][j] = float32(rng.NormFloat64())
			}
			rows[i][class[i]] += 4
		}
		return dense(rows), class
	}
	x, class := make3(300)
	m, err := Train(t.Context(), SBT, Job{X: x, Class: class, Classes: 3, Params: Params{BAC: BACParams{Budget: 3, C: 0.1}}})
	must(t, err)
	must(t, m.Validate())
	test, want := make3(300)
	p := NewPredictor(NewIndex(m))
	wrong := 0
	for i := range want {
		if c, _ := p.Class(test.Row(i)); c != int(want[i]) {
			wrong++
		}
	}
	if wrong > 25 {
		t.Errorf("%d of 300 wrong", wrong)
	}
	for _, c := range []struct {
		class []uint32
		n     int
		want  error
	}{{class[:5], 3, ErrInput}, {class, 2, ErrInput}, {class, 4, ErrInput}, {make([]uint32, 300), 3, ErrOneClass}, {slices.Repeat([]uint32{7}, 300), 3, ErrInput}} {
		if _, err := Train(t.Context(), SBT, Job{X: x, Class: c.class, Classes: c.n, Params: Params{BAC: BACParams{Budget: 3}}}); !errors.Is(err, c.want) {
			t.Errorf("%d classes: %v, want %v", c.n, err, c.want)
		}
	}
}

// figure2 is the paper's example: labels a, b, c, e of 8 rows, here told apart
// by one feature a label.
func figure2(t *testing.T) (*vector.CSR, *labels.Matrix) {
	t.Helper()
	var sets [][]uint32
	for _, s := range []struct {
		times int
		set   []uint32
	}{{3, []uint32{0, 1}}, {1, []uint32{0, 2}}, {3, []uint32{3}}, {1, []uint32{2}}} {
		for range s.times {
			sets = append(sets, s.set)
		}
	}
	rows := make([][]float32, len(sets))
	for i, s := range sets {
		rows[i] = make([]float32, 4)
		for _, l := range s {
			rows[i][l] = 1
		}
	}
	y, err := labels.FromSets(sets, 4)
	must(t, err)
	return dense(rows), y
}

// The trees of the paper's figures 2 and 3.
func TestPaperExample(t *testing.T) {
	x, y := figure2(t)
	params := Params{BAC: BACParams{Budget: 4, C: 10}}
	pt, err := Train(t.Context(), PT, Job{X: x, Sets: y, Params: params})
	must(t, err)
	if s := pt.Stats(); s.Nodes != 3 || s.Leaves != 4 || s.Depth != 3 || s.Decisions != (3*1+3*2+2*3)/8. {
		t.Errorf("PT %+v", s)
	}
	at, err := Train(t.Context(), AT, Job{X: x, Sets: y, Params: params})
	must(t, err)
	// a (or b, equally frequent after a) at the root, then b in the left and e
	// in the right child.
	if !slices.Equal(at.NodeLabel, []uint32{0, 1, 3}) || !slices.Equal(at.NodeWorking, []uint32{4, 2, 2}) {
		t.Errorf("AT asks for %v of %v", at.NodeLabel, at.NodeWorking)
	}
	for _, m := range []*Model{pt, at} {
		must(t, m.Validate())
		p := NewPredictor(NewIndex(m))
		for i := range y.Rows() {
			if got := p.Set(x.Row(i)); !slices.Equal(got, y.Row(i)) {
				t.Errorf("%s: row %d: %v, want %v", m.Kind, i, got, y.Row(i))
			}
			scores := p.Scores(x.Row(i), 0)
			best := labels.Rank(nil, scores, len(y.Row(i)))
			for _, r := range best {
				if !slices.Contains(y.Row(i), r.Label) {
					t.Errorf("%s: row %d: scores %v", m.Kind, i, scores)
				}
			}
		}
	}
}

// drawLabels makes a random multi-label problem whose labels depend on the
// features.
func drawLabels(n, m, q int, seed uint64) (*vector.CSR, *labels.Matrix) {
	rng := rand.New(rand.NewPCG(seed, 5))
	rows := make([][]float32, n)
	sets := make([][]uint32, n)
	for i := range rows {
		rows[i] = make([]float32, m)
		for j := range rows[i] {
			if rng.IntN(3) == 0 {
				rows[i][j] = float32(rng.NormFloat64())
			}
		}
		for l := range q {
			if float64(rows[i][l%m])+0.3*rng.NormFloat64() > 0.5+0.1*float64(l) {
				sets[i] = append(sets[i], uint32(l))
			}
		}
	}
	y, err := labels.FromSets(sets, q)
	if err != nil {
		panic(err)
	}
	return dense(rows), y
}

// The leaves of PT and AT are the label sets of the training rows with their
// counts; the mean number of decisions is at least their entropy, for PT below
// entropy + 1 (theorems 12, 13). The model is valid, and the same at any number
// of workers.
func TestTreesOfSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, q := rapid.IntRange(5, 80).Draw(t, "n"), rapid.IntRange(2, 12).Draw(t, "q")
		x, y := drawLabels(n, 8, q, rapid.Uint64().Draw(t, "seed"))
		params := Params{BAC: BACParams{Budget: 2, Rounds: 2}}
		var rows []int
		for i := range n {
			if rapid.IntRange(0, 4).Draw(t, "in") > 0 {
				rows = append(rows, i)
			}
		}
		if len(rows) == 0 {
			t.Skip("no rows")
		}
		sets := y.Select(rows).PowersetsOf(positions(len(rows)))
		for _, kind := range []Kind{PT, AT} {
			last := 0
			job := Job{X: x, Sets: y, Rows: rows, Params: params, Workers: 1, Progress: func(done, total int) {
				if done <= last || done > total {
					t.Fatalf("progress %d, %d of %d", last, done, total)
				}
				last = done
			}}
			m, err := Train(context.Background(), kind, job)
			if errors.Is(err, ErrInput) && (len(sets.Sets) == 1 || len(rows) == 1) {
				continue
			}
			must(t, err)
			must(t, m.Validate())
			count := 0
			for leaf := range m.Leaves() {
				i := slices.IndexFunc(sets.Sets, func(s []uint32) bool { return slices.Equal(s, m.Set(leaf)) })
				if i < 0 || sets.Count[i] != int(m.LeafRows[leaf]) {
					t.Fatalf("leaf %v of %d rows", m.Set(leaf), m.LeafRows[leaf])
				}
				count++
			}
			if count != len(sets.Sets) || m.Nodes() != count-1 {
				t.Fatalf("%d leaves, %d nodes for %d sets", count, m.Nodes(), len(sets.Sets))
			}
			s := m.Stats()
			if s.Decisions < s.Entropy-1e-9 || m.Kind == PT && s.Decisions >= s.Entropy+1 {
				t.Fatalf("%s: %v decisions, entropy %v", m.Kind, s.Decisions, s.Entropy)
			}
			job.Workers, job.Progress = 3, nil
			again, err := Train(context.Background(), kind, job)
			must(t, err)
			if !reflect.DeepEqual(m, again) {
				t.Fatal("the tree depends on the number of workers")
			}
		}
	})
}

// Theorem 13's upper bound does not hold: q labels of one row each make a
// chain.
func TestTheorem13(t *testing.T) {
	const q = 16
	rows := make([][]float32, q)
	sets := make([][]uint32, q)
	for i := range rows {
		rows[i] = make([]float32, q)
		rows[i][i] = 1
		sets[i] = []uint32{uint32(i)}
	}
	y, err := labels.FromSets(sets, q)
	must(t, err)
	m, err := Train(t.Context(), AT, Job{X: dense(rows), Sets: y, Params: Params{BAC: BACParams{Budget: 1}}})
	must(t, err)
	s := m.Stats()
	if want := (q+1)/2. - 1./q; math.Abs(s.Decisions-want) > 1e-9 || s.Entropy != 4 {
		t.Errorf("%v decisions, want %v; entropy %v", s.Decisions, want, s.Entropy)
	}
}

func TestMinPositive(t *testing.T) {
	x, y := drawLabels(200, 8, 12, 3)
	m, err := Train(t.Context(), AT, Job{X: x, Sets: y, Params: Params{BAC: BACParams{Budget: 2}, MinPositive: 10}})
	must(t, err)
	must(t, m.Validate())
	full, err := Train(t.Context(), AT, Job{X: x, Sets: y, Params: Params{BAC: BACParams{Budget: 2}}})
	must(t, err)
	if m.Nodes() >= full.Nodes()/2 || m.Nodes() == 0 {
		t.Errorf("%d nodes, %d without the bound", m.Nodes(), full.Nodes())
	}
	for i := range m.Nodes() {
		left := m.Left[i]
		rows := uint32(0)
		if left < 0 {
			rows = m.LeafRows[^left]
		} else {
			rows = m.NodeRows[left]
		}
		if rows < 10 {
			t.Errorf("node %d asks for a label of %d rows", i, rows)
		}
	}
}

func TestSBTDeterministic(t *testing.T) {
	x, y := xor(400, 10, 3)
	params := Params{BAC: BACParams{Budget: 2}, Seed: 9}
	last := 0
	a, err := Train(t.Context(), SBT, Job{X: x, Class: classesOf(y), Classes: 2, Params: params, Workers: 1, Progress: func(done, total int) {
		if done <= last || done > total || total != 400 {
			t.Errorf("progress %d, %d of %d", last, done, total)
		}
		last = done
	}})
	must(t, err)
	if last != 400 {
		t.Errorf("progress ended at %d", last)
	}
	for workers := range 5 {
		b, err := Train(t.Context(), SBT, Job{X: x, Class: classesOf(y), Classes: 2, Params: params, Workers: workers})
		must(t, err)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%d workers make another tree", workers)
		}
	}
}

func TestTreesBadInput(t *testing.T) {
	x, y := figure2(t)
	none, err := labels.FromSets(make([][]uint32, 8), 4)
	must(t, err)
	same, err := labels.FromSets(slices.Repeat([][]uint32{{1}}, 8), 4)
	must(t, err)
	bad := *x
	bad.Value = slices.Clone(x.Value)
	bad.Value[0] = float32(math.Inf(1))
	flat := &vector.CSR{Ptr: make([]uint64, 9), Cols: 4}
	ok := Params{BAC: BACParams{Budget: 1}}
	for _, c := range []struct {
		name   string
		x      *vector.CSR
		y      *labels.Matrix
		rows   []int
		params Params
		want   error
	}{
		{"no budget", x, y, nil, Params{}, ErrParams},
		{"negative support", x, y, nil, Params{BAC: ok.BAC, MinPositive: -1}, ErrParams},
		{"no matrix", nil, y, nil, ok, ErrInput},
		{"no labels", x, nil, nil, ok, ErrInput},
		{"empty labels", x, none, nil, ok, ErrNoLabels},
		{"no row", x, y, []int{}, ok, ErrInput},
		{"row beyond", x, y, []int{9}, ok, ErrInput},
		{"same sets", x, same, nil, ok, ErrOneClass},
		{"infinite", &bad, y, nil, ok, ErrInput},
		{"constant", flat, y, nil, ok, ErrConstant},
	} {
		for _, kind := range []Kind{PT, AT} {
			job := Job{X: c.x, Sets: c.y, Rows: c.rows, Params: c.params, Workers: 1}
			if _, err := Train(t.Context(), kind, job); !errors.Is(err, c.want) {
				t.Errorf("%s, %s: %v, want %v", kind, c.name, err, c.want)
			}
		}
	}
	two := []uint32{1, 0, 1, 0, 1, 0, 1, 0}
	for _, c := range []struct {
		name    string
		class   []uint32
		classes int
		params  Params
		want    error
	}{
		{"no budget", two, 2, Params{}, ErrParams},
		{"negative folds", two, 2, Params{BAC: ok.BAC, Folds: -1}, ErrParams},
		{"too many folds", two, 2, Params{BAC: ok.BAC, Folds: 33}, ErrParams},
		{"negative depth", two, 2, Params{BAC: ok.BAC, MaxDepth: -1}, ErrParams},
		{"one class", make([]uint32, 8), 2, ok, ErrOneClass},
		{"no classes", two, 1, ok, ErrInput},
		{"class beyond", []uint32{1, 0, 1, 0, 1, 0, 1, 2}, 2, ok, ErrInput},
		{"class without a row", two, 3, ok, ErrInput},
		{"too few rows", two[1:], 2, ok, ErrInput},
	} {
		job := Job{X: x, Class: c.class, Classes: c.classes, Params: c.params, Workers: 1}
		if _, err := Train(t.Context(), SBT, job); !errors.Is(err, c.want) {
			t.Errorf("SBT, %s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := Train(t.Context(), "kd", Job{X: x, Sets: y, Params: ok}); !errors.Is(err, ErrParams) {
		t.Errorf("a kind that is not of this package: %v", err)
	}
}

func TestCancel(t *testing.T) {
	x, y := xor(500, 10, 3)
	lx, ly := drawLabels(200, 8, 12, 3)
	params := Params{BAC: BACParams{Budget: 2}}
	for name, train := range map[string]func(context.Context, func(int, int)) error{
		"sbt": func(ctx context.Context, f func(int, int)) error {
			_, err := Train(ctx, SBT, Job{X: x, Class: classesOf(y), Classes: 2, Params: params, Workers: 2, Progress: f})
			return err
		},
		"pt": func(ctx context.Context, f func(int, int)) error {
			_, err := Train(ctx, PT, Job{X: lx, Sets: ly, Params: params, Workers: 2, Progress: f})
			return err
		},
		"at": func(ctx context.Context, f func(int, int)) error {
			_, err := Train(ctx, AT, Job{X: lx, Sets: ly, Params: params, Workers: 2, Progress: f})
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := train(ctx, func(done, total int) {
			if done < total {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where the leaf of a row has no label, an AT that keeps the best one answers the
// first of its ranking; elsewhere, and without that rule, the leaf's set.
func TestKeepTop(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	var sets [][]uint32
	for range 300 {
		topic := uint32(rng.IntN(4))
		x.Append(vector.Sparse{Index: []uint32{topic, 4 + uint32(rng.IntN(4))}, Value: []float32{1, 2}})
		var set []uint32
		if rng.IntN(3) > 0 { // a label that its feature does not settle
			set = append(set, topic)
		}
		sets = append(sets, set)
	}
	x.Cols = 8
	y, err := labels.FromSets(sets, 4)
	must(t, err)
	params := Params{BAC: BACParams{Budget: 4, C: 1}, Threshold: 0.75}
	plain, err := Train(t.Context(), AT, Job{X: x, Sets: y, Params: params, Workers: 1})
	must(t, err)
	params.KeepTop = true
	top, err := Train(t.Context(), AT, Job{X: x, Sets: y, Params: params, Workers: 1})
	must(t, err)
	a, b := NewPredictor(NewIndex(plain)), NewPredictor(NewIndex(top))
	empty := 0
	for i := range x.Rows() {
		want := slices.Clone(a.Set(x.Row(i)))
		if len(want) == 0 {
			empty++
			want = []uint32{labels.Rank(nil, b.Scores(x.Row(i), 0.001), 1)[0].Label}
		}
		if got := b.Set(x.Row(i)); !slices.Equal(got, want) {
			t.Fatalf("row %d: %v, want %v", i, got, want)
		}
	}
	if empty == 0 {
		t.Error("no leaf without labels: nothing was tested")
	}
	all, err := PredictSets(t.Context(), top, x, 2)
	must(t, err)
	for i := range x.Rows() {
		if !slices.Equal(all.Row(i), b.Set(x.Row(i))) {
			t.Fatalf("row %d: %v together, %v alone", i, all.Row(i), b.Set(x.Row(i)))
		}
	}
	most := 0
	for l := range 4 {
		if len(y.Column(l)) > len(y.Column(most)) {
			most = l
		}
	}
	if got := top.mostFrequent(); got != most {
		t.Errorf("label %d is taken for the most frequent one, want %d", got, most)
	}
}

// must ends a test that has got an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// valueOf returns x[r][f].
func valueOf(x *vector.CSR, r int32, f uint32) float32 {
	row := x.Row(int(r))
	i, ok := slices.BinarySearch(row.Index, f)
	switch {
	case !ok:
		return 0
	case row.Value == nil:
		return 1
	}
	return row.Value[i]
}
