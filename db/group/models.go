package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
)

// Models are label models of groups, with what they know of the features of recent queries. The zero
// value is ready, and safe for concurrent use.
type Models struct {
	mu  sync.Mutex
	all map[string]*models // by the versions of the parts
}

// mostModels bounds the models that are kept: replicas of a part may have different ones.
const mostModels = 8

// Share has the group use, and add to, models that groups of the same parts have in common. Call it
// before Predict.
func (g *Group) Share(m *Models) { g.models = m }

// models are the label models of one name in all parts.
type models struct {
	versions []uint64       // of each part, 0 for none
	alone    bool           // each predicts by itself
	learned  []int          // rows of each part, then
	params   lcif.Params    // of the first one
	labels   []string       // of all, ascending
	rows     []uint32       // with each label, in the segments of all models
	limits   []float64      // the threshold of each label if labels have their own
	numbers  [][]uint32     // of the labels of each part
	powers   *labels.Powers // without features

	mu      sync.Mutex
	columns map[string]*column // by the key of the feature
	size    int                // of their values
}

// column is the part of labels.Powers that is of one feature.
type column struct {
	set    []uint32
	value  []float32
	factor float64
}

// mostValues bounds the values of the columns that are kept: 128 MiB with their labels.
const mostValues = 16 << 20

// open returns the models of a name: those that the group has opened, unless there are newer ones.
func (g *Group) open(ctx context.Context, index string, newer bool) (*models, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.opened[index]; m != nil && !newer {
		return m, nil
	}
	found, err := all(ctx, g, func(i int) (Model, error) {
		m, err := g.parts[i].Model(ctx, index)
		if g.infos[i].Live == 0 && errors.Is(err, db.ErrNotFound) {
			err = nil
		}
		return m, err
	})
	if err != nil {
		return nil, err
	}
	if g.opened == nil {
		g.models, g.opened = cmp.Or(g.models, &Models{}), map[string]*models{}
	}
	m, err := g.models.of(found)
	if err == nil {
		g.opened[index] = m
	}
	return m, err
}

// of returns the models of the parts.
func (s *Models) of(found []Model) (m *models, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	versions := make([]uint64, len(found))
	for i := range found {
		versions[i] = found[i].Version
	}
	key := fmt.Sprint(versions)
	if m = s.all[key]; m == nil {
		if m, err = newModels(found); err != nil {
			return nil, err
		}
		if m.versions = versions; s.all == nil || len(s.all) == mostModels {
			s.all = map[string]*models{}
		}
		s.all[key] = m
	}
	return m, nil
}

func newModels(found []Model) (_ *models, err error) {
	first := slices.IndexFunc(found, func(x Model) bool { return x.Version > 0 })
	if first < 0 {
		return nil, fmt.Errorf("%w: no label model in %d collections without rows", db.ErrNotFound, len(found))
	}
	m := &models{numbers: make([][]uint32, len(found)), columns: map[string]*column{}}
	for i := range found {
		x := &found[i]
		m.learned = append(m.learned, x.Learned)
		if x.Version > 0 && x.Alone != found[first].Alone {
			return nil, fmt.Errorf("%w: only some of the %d label models are of kind lcif with weight none: build "+
				"the same kind in all collections", fail.Kind, len(found))
		}
		if x.Alone {
			m.alone, x.Rows = true, make([]int, len(x.Labels))
		}
		if len(x.Rows) != len(x.Labels) {
			return nil, fmt.Errorf("group: a model of %d labels with the rows of %d", len(x.Labels), len(x.Rows))
		}
		m.labels = append(m.labels, x.Labels...)
	}
	slices.Sort(m.labels)
	m.labels = slices.Compact(m.labels)
	m.rows = make([]uint32, len(m.labels))
	m.params = found[first].Params
	if t := m.params.Thresholds; t != nil && t.PerLabel != nil {
		m.limits = slices.Repeat([]float64{t.Single}, len(m.labels))
	}
	for i := range slices.Backward(found) { // the first part that has a label decides its threshold
		x := &found[i]
		for l, name := range x.Labels {
			at, _ := slices.BinarySearch(m.labels, name)
			m.numbers[i] = append(m.numbers[i], uint32(at))
			m.rows[at] += uint32(x.Rows[l])
			if t := x.Params.Thresholds; m.limits != nil && t != nil && (t.PerLabel == nil || l < len(t.PerLabel)) {
				m.limits[at] = t.Of(uint32(l))
			}
		}
	}
	m.powers, err = m.sum(nil, 0)
	return m, err
}

// sum adds the sums of n features over all parts.
func (m *models) sum(found [][]Sums, n int) (*labels.Powers, error) {
	out := &labels.FeatureLabels{Ptr: []uint64{0}, Rows: m.rows}
	sums := make([]int64, len(m.labels)) // zero between features, as met, which has a bit for each label
	met := make([]uint64, (len(m.labels)+63)/64)
	for f := range n {
		var square labels.Uint128
		for i := range found {
			if len(found[i]) == 0 {
				continue
			}
			numbers := m.numbers[i]
			square = square.Add(found[i][f].Square)
			err := found[i][f].Each(len(numbers), func(label uint32, sum int64) {
				at := numbers[label]
				sums[at] += sum
				met[at/64] |= 1 << (at % 64)
			})
			if err != nil {
				return nil, err
			}
		}
		for w, word := range met {
			met[w] = 0
			for ; word != 0; word &= word - 1 {
				l := w*64 + bits.TrailingZeros64(word)
				out.Label, out.Sum = append(out.Label, uint32(l)), append(out.Sum, sums[l])
				sums[l] = 0
			}
		}
		out.Ptr, out.Square = append(out.Ptr, uint64(len(out.Label))), append(out.Square, square)
	}
	// The power of the stored numbers, which are float32, is that of the model.
	return out.Powers(cmp.Or(m.params.Beta, 1))
}

// columnsOf returns what the models know of features, and asks the parts if it is not there.
func (m *models) columnsOf(
	ctx context.Context, g *Group, index string, features []*feature,
) ([]*column, error) {
	out := make([]*column, len(features))
	var missing []Feature
	var at []int // of missing
	m.mu.Lock()
	for i, f := range features {
		if out[i] = m.columns[f.key]; out[i] == nil {
			missing, at = append(missing, Feature{Name: f.Name, Number: f.Number}), append(at, i)
		}
	}
	m.mu.Unlock()
	if len(missing) == 0 {
		return out, nil
	}
	found, err := all(ctx, g, func(i int) ([]Sums, error) {
		if m.versions[i] == 0 {
			return nil, nil
		}
		sums, err := g.parts[i].Sums(ctx, index, m.versions[i], missing)
		if err == nil && len(sums) != len(missing) {
			err = fmt.Errorf("group: the sums of %d features, want %d", len(sums), len(missing))
		}
		return sums, err
	})
	if err != nil {
		return nil, err
	}
	p, err := m.sum(found, len(missing))
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, at := range at {
		c := &column{factor: p.Feature[i]}
		c.set, c.value, _ = p.Parts[0].Row(i)
		if m.size += len(c.value); m.size > mostValues {
			m.columns, m.size = map[string]*column{}, len(c.value)
		}
		out[at], m.columns[features[at].key] = c, c
	}
	return out, nil
}

// powersOf returns what columns are part of.
func (m *models) powersOf(columns []*column) *labels.Powers {
	p := labels.Pairs{Ptr: []uint64{0}, Start: []uint64{0}}
	out := &labels.Powers{Beta: m.powers.Beta, Label: m.powers.Label}
	set, value := 0, 0
	for _, c := range columns {
		set, value = set+len(c.set), value+len(c.value)
	}
	p.Label, p.Value = make([]uint32, 0, set), make([]float32, 0, value)
	for _, c := range columns {
		p.Label, p.Value = append(p.Label, c.set...), append(p.Value, c.value...)
		p.Ptr, p.Start = append(p.Ptr, uint64(len(p.Label))), append(p.Start, uint64(len(p.Value)))
		out.Feature = append(out.Feature, c.factor)
	}
	out.Parts = []labels.Pairs{p}
	return out
}
