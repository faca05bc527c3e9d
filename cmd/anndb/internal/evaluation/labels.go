package evaluation

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/indexes"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/cmd/anndb/internal/queries"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// rankedAt are the k of precision@k and nDCG@k.
var rankedAt = []int{1, 3, 5}

// models are the label models to measure: those that --index names, or all. In a dense
// collection there are none, and nearest rows are measured, where --index names none or
// where there are other indexes, too.
func (c *Evaluate) models(s *db.Snapshot, info db.CollectionInfo) ([]string, error) {
	list, err := s.Collection(c.Collection).Indexes()
	if err != nil {
		return nil, err
	}
	var models []string
	for _, i := range list {
		if indexes.Predicts(i) {
			models = append(models, i.Name)
		}
	}
	var missing []string
	for _, name := range c.Index {
		if !slices.Contains(models, name) {
			missing = append(missing, name)
		}
	}
	switch {
	case info.Sparse && len(missing) > 0:
		return nil, fmt.Errorf("collection %q has no label model %q", info.Name, missing[0])
	case info.Sparse && len(models) == 0:
		return nil, indexes.NoLabelModel(info.Name)
	case len(c.Index) == 0 && (info.Sparse || len(models) == len(list)):
		return models, nil
	case len(missing) == len(c.Index):
		return nil, nil
	case len(missing) > 0:
		return nil, command.Usagef("--index names label models and forests, which are measured by other things")
	}
	return c.Index, nil
}

// labels measures label models.
func (c *Evaluate) labels(a *command.App, s *db.Snapshot, info db.CollectionInfo, models []string) error {
	switch {
	case c.Queries == "":
		return command.Usagef("--holdout is for nearest rows: "+
			"a label model knows the labels of its rows, so %q needs --queries", info.Name)
	case len(c.Method) > 0:
		return command.Usagef("--method is for forests of dense collections, not for label models")
	}
	q, err := input.ReadQueries(c.Queries, c.Labels, c.FileFlags, input.TargetOf(a, &info))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(q.Labels, func(l []string) bool { return len(l) > 0 }) {
		return command.Usagef("no record of %s has a label to compare predictions with; "+
			"labels of idx files are in a file of their own: --labels", c.Queries)
	}
	t, err := NewLabelTest(s, c.Collection, q)
	if err != nil {
		return err
	}
	t.Info = info
	out := &labelMeasures{models: models}
	for _, m := range models {
		if err := t.evaluate(a, s, m, c.Threads, out); err != nil {
			return fmt.Errorf("index %s: %w", m, err)
		}
	}
	a.Title("rows: %d, labels: %d, %d of them unknown to the collection and so always missed%s; threads: %d",
		len(q.Keys), len(t.names), t.unknown, t.omission(), c.Threads)
	if !a.People() {
		return a.Print(out.long())
	}
	wide, zero := out.wide()
	if zero {
		a.Title("zero: the same with 0/0 counted as 0; the others count it as 1, as Mulan does " +
			"and the paper of LCIF.")
	}
	return a.Print(wide)
}

// labelMeasures are the measures of label models.
type labelMeasures struct {
	models []string
	all    []labelMeasure
}

// labelMeasure is a measure of one model.
type labelMeasure struct {
	model, name string
	value       float64
	zero        *float64 // with 0/0 counted as 0; nil where that cannot happen
}

// long has a row for each measure of each model, for programs.
func (m *labelMeasures) long() *table.Table {
	t := table.New("index", "measure", "value:4", "zero:4")
	for _, x := range m.all {
		var zero any
		if x.zero != nil {
			zero = *x.zero
		}
		t.Add(x.model, x.name, x.value, zero)
	}
	return t
}

// wide has a row for each measure and a column for each model, for people; zero reports whether
// there are rows with 0/0 counted as 0, which are left out where that changes nothing.
func (m *labelMeasures) wide() (t *table.Table, zero bool) {
	columns := []string{"measure"}
	for _, model := range m.models {
		columns = append(columns, model+":4")
	}
	t = table.New(columns...)
	var done []string
	for _, first := range m.all {
		if slices.Contains(done, first.name) {
			continue
		}
		done = append(done, first.name)
		values, zeros, differ := []any{first.name}, []any{first.name + ", zero"}, false
		for _, model := range m.models {
			i := slices.IndexFunc(m.all, func(x labelMeasure) bool { return x.model == model && x.name == first.name })
			if i < 0 {
				values, zeros = append(values, nil), append(zeros, nil)
				continue
			}
			x := m.all[i]
			values = append(values, x.value)
			if x.zero == nil {
				zeros = append(zeros, nil)
				continue
			}
			zeros = append(zeros, *x.zero)
			differ = differ || math.Abs(*x.zero-x.value) >= 5e-5
		}
		t.Add(values...)
		if differ {
			t.Add(zeros...)
			zero = true
		}
	}
	return t, zero
}

// labelTest is test rows with their labels, numbered together with those of
// the collection. It measures the labels that any of these rows has, so that
// macro averages and Hamming loss are over the labels that the tuner has, and
// over those of the test rows that it cannot have.
type labelTest struct {
	coll    string
	Info    db.CollectionInfo // of coll
	noted   bool              // unknown features were reported
	q       *input.Queries
	names   []string
	unknown int // labels of test rows that no row of the collection has
	omitted int // labels that the file declares and no row has
	truth   *labels.Matrix
}

func NewLabelTest(s *db.Snapshot, coll string, q *input.Queries) (*labelTest, error) {
	counts, err := s.Collection(coll).Labels()
	if err != nil {
		return nil, err
	}
	b, err := labels.NewBuilder(nil)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, l := range counts {
		known[l.Label] = true
		b.Add([]string{l.Label})
	}
	t := &labelTest{coll: coll, q: q}
	missing := map[string]bool{}
	for _, row := range q.Labels {
		b.Add(row)
		for _, l := range row {
			if !known[l] {
				missing[l] = true
			}
		}
	}
	t.names, t.unknown = b.Names(), len(missing)
	for _, l := range q.Names {
		if !known[l] && !missing[l] {
			t.omitted++
		}
	}
	t.truth, err = t.matrix(q.Labels)
	return t, err
}

// omission describes the declared labels that are not measured; it is empty where
// there are none.
func (t *labelTest) omission() string {
	if t.omitted == 0 {
		return ""
	}
	return fmt.Sprintf("; %d that the file declares and no row has are left out", t.omitted)
}

// matrix numbers sets of labels, none of which is new.
func (t *labelTest) matrix(sets [][]string) (*labels.Matrix, error) {
	b, err := labels.NewBuilder(t.names)
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		b.Add(s)
	}
	if n := len(b.Names()); n != len(t.names) {
		return nil, fmt.Errorf("%d labels predicted that no row has", n-len(t.names))
	}
	return b.Matrix(), nil
}

// scores numbers predictions, the best of a row first. Only their order counts,
// so a label's score is its place from the end, whatever the model's is made of.
func (t *labelTest) scores(found [][]db.Prediction) *vector.CSR {
	number := make(map[string]uint32, len(t.names))
	for i, n := range t.names {
		number[n] = uint32(i)
	}
	m := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for _, predictions := range found {
		var row vector.Sparse
		score := map[uint32]float32{}
		for i, p := range predictions {
			l := number[p.Label]
			score[l] = float32(len(predictions) - i)
			row.Index = append(row.Index, l)
		}
		slices.Sort(row.Index)
		for _, l := range row.Index {
			row.Value = append(row.Value, score[l])
		}
		m.Append(row)
	}
	m.Cols = len(t.names)
	return m
}

// evaluate adds the measures of one model.
func (t *labelTest) evaluate(
	a *command.App, s *db.Snapshot, model string, threads int, out *labelMeasures,
) error {
	start := time.Now()
	// The best labels and the predicted set at once.
	o := &db.PredictOptions{Index: model, Top: slices.Max(rankedAt), Set: true}
	p := queries.Predicting{App: a, Snapshot: s, Info: t.Info, Options: o, Workers: threads}
	found, err := p.All(t.q.Queries)
	if err != nil {
		return err
	}
	took := time.Since(start)
	if !t.noted {
		p.Unknown.Note(a)
		t.noted = true
	}
	sets := make([][]string, len(found))
	for i, predictions := range found {
		for _, p := range predictions {
			if p.Predicted {
				sets[i] = append(sets[i], p.Label)
			}
		}
	}
	predicted, err := t.matrix(sets)
	if err != nil {
		return err
	}
	r, err := labels.Evaluate(t.truth, predicted)
	if err != nil {
		return err
	}
	ranking, err := labels.EvaluateRanking(t.truth, t.scores(found), rankedAt)
	if err != nil {
		return err
	}
	add := func(measure string, value float64, zero *float64) {
		out.all = append(out.all, labelMeasure{model, measure, value, zero})
	}
	add("accuracy", r.Mulan.Accuracy, &r.Zero.Accuracy)
	add("example-f1", r.Mulan.F1, &r.Zero.F1)
	add("micro-precision", r.Mulan.Micro.Precision, &r.Zero.Micro.Precision)
	add("micro-recall", r.Mulan.Micro.Recall, &r.Zero.Micro.Recall)
	add("micro-f1", r.Mulan.Micro.F1, &r.Zero.Micro.F1)
	add("macro-precision", r.Mulan.Macro.Precision, &r.Zero.Macro.Precision)
	add("macro-recall", r.Mulan.Macro.Recall, &r.Zero.Macro.Recall)
	add("macro-f1", r.Mulan.Macro.F1, &r.Zero.Macro.F1)
	add("hamming-loss", r.HammingLoss, nil)
	for i, k := range ranking.K {
		add(fmt.Sprintf("p@%d", k), ranking.Precision[i], nil)
	}
	for i, k := range ranking.K {
		add(fmt.Sprintf("ndcg@%d", k), ranking.NDCG[i], nil)
	}
	add("labels a row", r.Cardinality, nil)
	add("predicted a row", r.Predicted, nil)
	add("rows without evidence", float64(p.Blind)/float64(max(1, p.Asked)), nil)
	if err := t.decisions(a, s, model, add); err != nil {
		return err
	}
	add("µs a row", took.Seconds()*1e6/float64(r.Rows), nil)
	return nil
}

// decisions adds how many decisions the trees of a model take; nothing for other models.
func (t *labelTest) decisions(
	a *command.App, s *db.Snapshot, model string, add func(measure string, value float64, zero *float64),
) error {
	info, err := s.Collection(t.coll).Index(model)
	if err != nil || info.Tree == nil {
		return err
	}
	decisions, err := s.Collection(t.coll).TreeDecisions(a.Ctx, t.q.Queries, model)
	if err != nil {
		return err
	}
	add("decisions a row", decisions, nil)
	add("decisions a training row", info.Tree.Decisions*float64(info.Tree.Trees), nil)
	if info.Tree.Trees == 1 {
		add("entropy of the leaves", info.Tree.Entropy, nil)
	}
	return nil
}

// Precision returns precision@k of a model for k from 1 to n.
func (t *labelTest) Precision(a *command.App, s *db.Snapshot, model string, n int) ([]float64, error) {
	p := queries.Predicting{App: a, Snapshot: s, Info: t.Info, Options: &db.PredictOptions{Index: model, Top: n}}
	found, err := p.All(t.q.Queries)
	if err != nil {
		return nil, err
	}
	ks := make([]int, n)
	for i := range ks {
		ks[i] = i + 1
	}
	r, err := labels.EvaluateRanking(t.truth, t.scores(found), ks)
	if err != nil {
		return nil, err
	}
	return r.Precision, nil
}
