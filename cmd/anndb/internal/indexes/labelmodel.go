package indexes

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
)

// ShownSettings is how many of the settings that a tuner measured people see.
const ShownSettings = 5

// tuneFlags say how a label model is tuned.
type tuneFlags struct {
	Weight       string `enum:",none,tfidf,standard" default:"" placeholder:"W"`
	Objective    string `enum:"${objectives}" default:"" placeholder:"MEASURE"`
	Folds        int    `default:"0"`
	TuneRows     int    `default:"0"`
	FeatureShare []float64
	AllowEmpty   bool
	Paper        bool
	Neighbors    string `placeholder:"INDEX"`
	SecondOrders []float64
}

func (f tuneFlags) given() bool {
	return f.AllowEmpty || f.Paper || f.Weight != "" || f.Objective != "" ||
		f.Folds != 0 || f.TuneRows != 0 || len(f.FeatureShare) > 0 ||
		f.Neighbors != "" || len(f.SecondOrders) > 0
}

// lcifOnly reports whether flags are given that trees do not have.
func (f tuneFlags) lcifOnly() bool {
	f.Weight, f.Folds, f.TuneRows, f.AllowEmpty = "", 0, 0, false
	return f.given()
}

// withoutThreshold are the flags that only LCIF has.
func (m modelFlags) withoutThreshold() modelFlags {
	m.Threshold = nil
	return m
}

// modelFlags are the parameters of a label model that is not tuned.
type modelFlags struct {
	K            *int `name:"k"`
	Lambda       *float64
	Alpha        float64 `default:"0"`
	Beta         float64 `default:"0"`
	Threshold    *float64
	CutShare     float64 `default:"0"`
	CutPerLabel  bool
	KeepFeatures int     `default:"0"`
	SecondOrder  float64 `default:"0"`
}

// lcif are the flags as package db takes them.
func (m modelFlags) lcif(t tuneFlags) (db.LCIF, error) {
	o := db.LCIF{
		Folds: t.Folds, TuneRows: t.TuneRows, FeatureShares: t.FeatureShare, Neighbors: t.Neighbors,
		AllowEmpty: t.AllowEmpty, Paper: t.Paper, SecondOrders: t.SecondOrders,
	}
	o.Weight = t.Weight
	if t.Objective != "" {
		if err := o.Objective.UnmarshalText([]byte(t.Objective)); err != nil {
			return o, err
		}
	}
	if err := m.check(t); err != nil || m == (modelFlags{}) {
		return o, err
	}
	o.Params = &lcif.Params{
		Lambda: *m.Lambda, Alpha: m.Alpha, Beta: m.Beta, Features: m.KeepFeatures, SecondOrder: m.SecondOrder,
	}
	if m.K != nil {
		o.Params.K = *m.K
	}
	if m.CutShare != 0 || m.CutPerLabel {
		o.Cut = &lcif.Cut{Share: cmp.Or(m.CutShare, 1), PerLabel: m.CutPerLabel, NoTop: o.AllowEmpty}
	}
	if m.Threshold != nil {
		o.Params.Thresholds = &labels.Thresholds{Single: *m.Threshold, KeepTop: !o.AllowEmpty}
	}
	return o, nil
}

// check refuses flags that make no sense.
func (m modelFlags) check(t tuneFlags) error {
	if t.Folds < 0 || t.Folds == 1 || t.TuneRows < 0 {
		return command.Usagef("--folds must be 0 or at least 2, --tune-rows not negative")
	}
	for _, s := range t.FeatureShare {
		if !(s > 0 && s <= 1) {
			return command.Usagef("--feature-share %g (want above 0, at most 1)", s)
		}
	}
	for _, w := range append(t.SecondOrders, m.SecondOrder) {
		if !(w >= 0 && w <= 1) {
			return command.Usagef("weight of second-order scores %g (want 0 to 1)", w)
		}
	}
	if m == (modelFlags{}) {
		return nil
	}
	allowEmpty := t.AllowEmpty
	cut := m.CutShare != 0 || m.CutPerLabel
	t.Weight, t.Neighbors, t.AllowEmpty = "", "", false
	if cut {
		t.Folds, t.TuneRows = 0, 0
	}
	switch {
	case t.given():
		return command.Usagef("--objective, --folds, --tune-rows, --paper, --feature-share and --second-orders " +
			"are for tuning, which --k, --lambda, --alpha, --beta, --threshold, --cut-share, " +
			"--cut-per-label, --keep-features and --second-order replace")
	case m.Lambda == nil:
		return command.Usagef("--lambda is missing: without tuning it must be given, and --k unless --lambda is 0")
	case !(*m.Lambda >= 0 && *m.Lambda <= 1):
		return command.Usagef("--lambda %g (want 0 to 1)", *m.Lambda)
	case m.K == nil && *m.Lambda > 0, m.K != nil && *m.K < 1:
		return command.Usagef("--k must be at least 1")
	case !(m.Alpha >= 0 && m.Beta >= 0) || math.IsInf(m.Alpha, 0) || math.IsInf(m.Beta, 0):
		return command.Usagef("--alpha and --beta must not be negative")
	case !(m.CutShare >= 0) || math.IsInf(m.CutShare, 0):
		return command.Usagef("--cut-share %g (want above 0)", m.CutShare)
	case cut && m.Threshold != nil:
		return command.Usagef("--cut-share and --cut-per-label choose the threshold that --threshold gives: " +
			"give one of them")
	case m.CutShare != 0 && m.CutPerLabel:
		return command.Usagef("--cut-share and --cut-per-label exclude each other")
	case allowEmpty && !cut && m.Threshold == nil:
		return command.Usagef("--allow-empty without tuning goes with --threshold, --cut-share or --cut-per-label")
	case m.KeepFeatures < 0:
		return command.Usagef("--keep-features must not be negative")
	case m.Threshold != nil && !(*m.Threshold >= 0 && *m.Threshold <= 1):
		return command.Usagef("--threshold %g (want 0 to 1)", *m.Threshold)
	}
	return nil
}

// Predicts reports whether an index predicts labels.
func Predicts(i db.IndexInfo) bool {
	_, lcif := i.Options.(*db.LCIF)
	return lcif || IsTree(i.Kind)
}

// NoLabelModel is the error for a collection without any.
func NoLabelModel(coll string) error {
	return fmt.Errorf("collection %q has no label model: make one with anndb tune", coll)
}

// LCIFOptions are the options of a label model by LCIF; those of other indexes are zero.
func LCIFOptions(i db.IndexInfo) db.LCIF {
	if o, ok := i.Options.(*db.LCIF); ok {
		return *o
	}
	return db.LCIF{}
}

// SparseSetting is what an index other than a forest was built with; nil for
// forests, which say it in columns of their own.
func SparseSetting(i db.IndexInfo) any {
	if IsTree(i.Kind) {
		return treeSetting(i)
	}
	o, ok := i.Options.(*db.LCIF)
	if !ok {
		return nil
	}
	s := ""
	if w := o.Weight; w != "" && w != "none" {
		s += w + ", "
	}
	if o.Neighbors != "" {
		s += "neighbours by " + o.Neighbors + ", "
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

func SettingsTitle(i db.IndexInfo) string {
	if i.LabelCurve == nil {
		return ""
	}
	return fmt.Sprintf("What the tuner measured on %d rows held out, best %v first: %d settings",
		i.LabelCurve.Rows, LCIFOptions(i).Objective, len(i.LabelCurve.Points))
}

// SettingsTable is what the tuner of a label model measured, at most n of its
// points, the chosen one first.
func SettingsTable(i db.IndexInfo, n int) *table.Table {
	t := table.New("chosen", "micro_f1:4", "macro_f1:4", "accuracy:4", "hamming_loss:4",
		"p@1:4", "p@3:4", "p@5:4",
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
		var k, alpha, beta, second, features any
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
		t.Add(chosen, p.MicroF1, p.MacroF1, p.Accuracy, p.HammingLoss, p.Precision[0], p.Precision[1],
			p.Precision[2], k, alpha, beta, p.Lambda, second, features, p.Cut)
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
