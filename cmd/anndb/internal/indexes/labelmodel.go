package indexes

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/query/lcif"
)

// ShownSettings is how many of the settings that a tuner measured people see.
const ShownSettings = 5

// NoLabelModel is the error for a collection without any.
func NoLabelModel(coll string) error {
	return fmt.Errorf("collection %q has no label model: make one with anndb tune", coll)
}

// LCIFOptions are the options of a label model by LCIF; those of other indexes are zero.
func LCIFOptions(i index.Info) index.LCIF {
	if o, ok := i.Options.(*index.LCIF); ok {
		return *o
	}
	return index.LCIF{}
}

// SparseSetting is what an index other than a forest was built with; nil for
// forests, which say it in columns of their own.
func SparseSetting(i index.Info) any {
	if IsTree(i.Kind) {
		return treeSetting(i)
	}
	o, ok := i.Options.(*index.LCIF)
	if !ok {
		return nil
	}
	s := ""
	if w := o.Weight; w != "" && w != "none" {
		s += w + ", "
	}
	if o.Neighbors != "" {
		s += "neighbours by " + o.Neighbors
		if o.VectorWeight > 0 {
			s += fmt.Sprintf(" (%g of the vector)", o.VectorWeight)
		}
		s += ", "
	}
	if c := i.LabelCurve; c != nil {
		s += c.Best.Parameters() + ", " + c.Best.Cut.String()
	} else if p := o.Params; p != nil {
		s += lcif.Setting{
			Features: p.Features, K: p.K, Alpha: p.Alpha, Beta: p.Beta, Lambda: p.Lambda, SecondOrder: p.SecondOrder,
		}.Parameters()
		switch t := p.Thresholds; {
		case o.Cut != nil:
			s += ", " + o.Cut.String()
		case t != nil && t.PerLabel != nil:
			s += ", a threshold for each label"
		case t == nil:
			s += ", the best label"
		default:
			s += fmt.Sprintf(", threshold %g", t.Single)
		}
	}
	return s
}

func SettingsTitle(i index.Info) string {
	if i.LabelCurve == nil {
		return ""
	}
	return fmt.Sprintf("What the tuner measured on %d rows held out, best %v first: %d settings",
		i.LabelCurve.Rows, LCIFOptions(i).Objective, len(i.LabelCurve.Points))
}

// SettingsTable is what the tuner of a label model measured, at most n of its
// points, the chosen one first.
func SettingsTable(i index.Info, n int) *table.Table {
	t := table.New("chosen", "micro_f1:4", "macro_f1:4", "accuracy:4", "hamming_loss:4",
		"p@1:4", "p@3:4", "p@5:4", "ndcg@5:4", "psp@5:4",
		"k", "alpha", "beta", "lambda", "second_order", "features", "threshold")
	if i.LabelCurve == nil {
		return t
	}
	best := i.LabelCurve.Best
	points := slices.Clone(i.LabelCurve.Points)
	objective := LCIFOptions(i).Objective
	slices.SortStableFunc(points, func(a, b lcif.Point) int {
		if objective == lcif.HammingLoss {
			return cmp.Compare(a.HammingLoss, b.HammingLoss)
		}
		return cmp.Compare(b.Of(objective), a.Of(objective))
	})
	add := func(p lcif.Point, chosen bool) {
		var k, alpha, beta, second, features, psp any
		if p.Lambda > 0 {
			k, alpha = p.K, p.Alpha
		}
		if p.Lambda < 1 {
			beta = p.Beta
		}
		if p.SecondOrder > 0 {
			second = p.SecondOrder
		}
		if p.Features > 0 {
			features = p.Features
		}
		if objective == lcif.PropensityAt5 {
			psp = p.PSP5
		}
		t.Add(chosen, p.MicroF1, p.MacroF1, p.Accuracy, p.HammingLoss, p.Precision[0], p.Precision[1],
			p.Precision[2], p.NDCG5, psp, k, alpha, beta, p.Lambda, second, features, p.Cut)
	}
	add(best, true)
	for _, p := range points {
		if t.Len() >= n {
			break
		}
		if p.Setting != best.Setting {
			add(p, false)
		}
	}
	return t
}

// MembersTitle is the title of MembersTable.
func MembersTitle(i index.Info) string {
	o, ok := i.Options.(*index.Auto)
	if !ok {
		return ""
	}
	title := fmt.Sprintf("What was tried, by %v on held-out rows", o.Objective)
	if i.Unfinished {
		title += " (the same build again continues it)"
	}
	return title
}

// MembersTable shows the settings of members that were measured for a model of several kinds, and the weights
// of those that were chosen, for labels of fewer than 10, 50 and 200 rows and of more.
func MembersTable(i index.Info) *table.Table {
	t := table.New("chosen", "kind", "value:4", "seconds:1", "size", "below_10:1", "below_50:1", "below_200:1",
		"more:1", "setting")
	for _, x := range i.AutoTrials {
		var weight [4]any
		if x.Weight != [4]float64{} {
			for b, w := range x.Weight {
				weight[b] = w
			}
		}
		var size, value any
		if x.Bytes > 0 {
			size = table.Size(x.Bytes)
		}
		if x.Error == "" {
			value = x.Value
		}
		setting := cmp.Or(x.Error, x.Setting)
		t.Add(x.Chosen, x.Kind, value, x.Seconds, size, weight[0], weight[1], weight[2], weight[3], setting)
	}
	return t
}
