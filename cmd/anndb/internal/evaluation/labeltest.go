package evaluation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/cmd/anndb/internal/queries"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/report"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// labelTest is test rows with their labels, numbered together with those of
// the collection. It measures the labels that any of these rows has, so that
// macro averages and Hamming loss are over the labels that the tuner has, and
// over those of the test rows that it cannot have; and the labels that models
// predict, which rows had when these were built.
type labelTest struct {
	info db.CollectionInfo
	more bool // measures that people see on request
	// reliable has the models with probabilities that have been measured.
	reliable []report.Reliable
	q        []input.Query
	names    []string
	unknown  int // labels of test rows that no row of the collection has
	truth    *labels.Matrix
	// rows is the number of the collection's rows with each label, all that of its rows, without deleted ones.
	rows []int
	all  int
}

// answers is what a label model predicts for the test rows: the best labels, and the set.
type answers struct {
	queries.Predicting
	found [][]db.Prediction
	took  time.Duration
}

// newLabelTest numbers the labels of test rows, of a collection, and of answers.
func newLabelTest(
	s *db.Snapshot, info db.CollectionInfo, q []input.Query, asked []answers,
) (*labelTest, error) {
	counts, err := s.Collection(info.Name).Labels()
	if err != nil {
		return nil, err
	}
	b, err := labels.NewBuilder(nil)
	if err != nil {
		return nil, err
	}
	for _, label := range slices.Sorted(maps.Keys(counts)) {
		b.Add([]string{label})
	}
	t := &labelTest{info: info, q: q}
	sets := make([][]string, len(q))
	for i, x := range q {
		sets[i] = x.Labels
		b.Add(x.Labels)
	}
	t.unknown, t.all = len(b.Names())-len(counts), info.Live
	for _, x := range asked {
		for _, list := range x.found {
			b.Add(namesOf(list))
		}
	}
	t.names = b.Names()
	for _, name := range t.names {
		t.rows = append(t.rows, counts[name])
	}
	t.truth, err = t.matrix(sets)
	return t, err
}

// namesOf returns the labels of predictions.
func namesOf(list []db.Prediction) (names []string) {
	for _, p := range list {
		names = append(names, p.Label)
	}
	return names
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
		score := map[uint32]float32{}
		for i, p := range predictions {
			score[number[p.Label]] = float32(len(predictions) - i)
		}
		var row vector.Sparse
		row.Index = slices.Sorted(maps.Keys(score))
		for _, l := range row.Index {
			row.Value = append(row.Value, score[l])
		}
		m.Append(row)
	}
	m.Cols = len(t.names)
	return m
}

// evaluate returns the measures of one model.
func (t *labelTest) evaluate(c *Evaluate, x *answers) (out []measure, err error) {
	model := x.Options.Index
	sets := make([][]string, len(x.found))
	for i, predictions := range x.found {
		for _, p := range predictions {
			if p.Predicted {
				sets[i] = append(sets[i], p.Label)
			}
		}
	}
	predicted, err := t.matrix(sets)
	if err != nil {
		return nil, err
	}
	r, err := labels.Evaluate(t.truth, predicted)
	if err != nil {
		return nil, err
	}
	scores := t.scores(x.found)
	ranking, err := labels.EvaluateRanking(t.truth, scores, rankedAt)
	if err != nil {
		return nil, err
	}
	add := func(name string, value float64, zero any) { out = append(out, measure{model, name, value, zero}) }
	add("accuracy", r.Mulan.Accuracy, r.Zero.Accuracy)
	add("example-f1", r.Mulan.F1, r.Zero.F1)
	add("micro-precision", r.Mulan.Micro.Precision, r.Zero.Micro.Precision)
	add("micro-recall", r.Mulan.Micro.Recall, r.Zero.Micro.Recall)
	add("micro-f1", r.Mulan.Micro.F1, r.Zero.Micro.F1)
	add("macro-precision", r.Mulan.Macro.Precision, r.Zero.Macro.Precision)
	add("macro-recall", r.Mulan.Macro.Recall, r.Zero.Macro.Recall)
	add("macro-f1", r.Mulan.Macro.F1, r.Zero.Macro.F1)
	add("hamming-loss", r.HammingLoss, nil)
	for i, k := range ranking.K {
		add(fmt.Sprintf("p@%d", k), ranking.Precision[i], nil)
	}
	for i, k := range ranking.K {
		add(fmt.Sprintf("ndcg@%d", k), ranking.NDCG[i], nil)
	}
	if t.more {
		if err := t.others(predicted, scores, ranking, add); err != nil {
			return nil, err
		}
	}
	add("labels a row", r.Cardinality, nil)
	add("predicted a row", r.Predicted, nil)
	add("rows without evidence", float64(x.Blind)/float64(max(1, x.Asked)), nil)
	if err := t.decisions(x, add); err != nil {
		return nil, err
	}
	if err := t.probabilities(c, x, add); err != nil {
		return nil, err
	}
	add("µs a row", x.took.Seconds()*1e6/float64(r.Rows), nil)
	return out, nil
}

// decisions adds how many decisions the trees of a model take; nothing for other models.
func (t *labelTest) decisions(x *answers, add func(name string, value float64, zero any)) error {
	info, err := x.Snapshot.Collection(t.info.Name).Index(x.Options.Index)
	if err != nil || info.Tree == nil {
		return err
	}
	add("decisions a row", float64(x.Decisions)/float64(max(1, x.Asked)), nil)
	add("decisions a training row", info.Tree.Decisions*float64(info.Tree.Trees), nil)
	if info.Tree.Trees == 1 {
		add("entropy of the leaves", info.Tree.Entropy, nil)
	}
	return nil
}

// others adds measures that people see on request.
func (t *labelTest) others(
	predicted *labels.Matrix, scores *vector.CSR, ranking *labels.RankReport,
	add func(name string, value float64, zero any),
) error {
	weights := labels.InversePropensities(t.rows, t.all)
	scored, err := labels.EvaluatePropensity(t.truth, scores, rankedAt, weights)
	if err != nil {
		return err
	}
	all, by, err := labels.EvaluateOccurring(t.truth, predicted, t.rows)
	if err != nil {
		return err
	}
	for _, m := range []struct {
		name   string
		values []float64
	}{{"r", ranking.Recall}, {"f1", ranking.F1}, {"psp", scored.Precision}, {"psndcg", scored.NDCG}} {
		for i, k := range rankedAt {
			add(fmt.Sprintf("%s@%d", m.name, k), m.values[i], nil)
		}
	}
	add("macro-f1 of occurring", all.F1, nil)
	for b, name := range []string{"under 10 rows", "under 50 rows", "under 200 rows", "more rows"} {
		if by[b].Labels > 0 {
			add("precision of labels of "+name, by[b].Precision, nil)
			add("recall of labels of "+name, by[b].Recall, nil)
			add("f1 of labels of "+name, by[b].F1, nil)
		}
	}
	return nil
}
