package db

import (
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/forestindex"
	"github.com/anndb/anndb/trees/forest"
)

// learners are the values of Forest.Learner.
var learners = []forest.Kind{
	forest.RP, forest.KD, forest.KDChrono, forest.PCATree, forest.RF, forestindex.AnyLearner,
}

// Forest are the options of a forest, which finds rows of a dense collection. The zero value is a
// good general index: k-d trees over principal coordinates with sketches and neighbor lists, tuned
// on held-out rows.
type Forest struct {
	// Learner is "kd" (also when empty), "kd-chrono", "rp", "pca", "rf", or "auto", which selects the
	// learner and the depth that reach Recall (0.95 when zero) fastest on held-out rows.
	Learner string
	Recall  float64
	// Trees is the number of trees: 2 when zero if the index has tables, sketches and lists, else 16.
	Trees int
	// Depth is the number of levels of a tree, at most two leaves per row. Zero selects the depth at
	// which a leaf holds three and a half to seven rows, or one level less if Trees is 2 by default.
	Depth int
	// LeafNeighbors is the number of nearest rows (the row itself first) that a training point adds to
	// the table of its leaf, at most 4,096. Zero means 4 if Trees is 2 by default, else 50.
	LeafNeighbors int
	// Source selects how nearest rows are found: "exact", "approximate", or when empty exact if that
	// takes only seconds. Those of TrainingQueries are always exact.
	Source string
	// Rotation selects whether kd, kd-chrono and rf split on principal coordinates, of which there are
	// Coordinates. Zero means min(64, Dim) for kd and auto, none otherwise.
	Rotation    Switch
	Coordinates int
	Sketches    Switch // rows have sketches
	SketchBytes int    // 64: principal coordinates; 128, 192 or 256: signs; zero: the build chooses
	// Lists selects whether rows have neighbor lists, which beams and hops follow, of ListNeighbors
	// neighbors: at most 1,024, 24 when zero.
	Lists         Switch
	ListNeighbors int
	// Tables selects whether leaves have tables of the nearest rows of their training points, which
	// the natural classifier uses. Without them, only voting and lookup search, which need Members.
	Tables   Switch
	Quantize bool // store an 8-bit copy of float32 rows as a filter before the exact distances
	Members  bool // store the rows of each leaf, for voting and lookup
	// Density, Candidates, Subsample and MinVotes are those of the learner (forest.Params).
	Density                         float64
	Candidates, Subsample, MinVotes int
	// Tuning selects whether the tuner runs; without it, queries must specify their parameters. With
	// fewer than 10 rows, searches are exact scans until maintenance rebuilds the index.
	Tuning Switch
	// TuneK is the k that the tuner measures most thoroughly, 10 when zero. If it is more than half
	// of the rows, searches are exact scans.
	TuneK int
	// Holdout is the number of rows that the tuner holds out as queries, 1000 when zero, at most
	// 100,000 and a tenth of the rows. Equal rows are held out together and queried once.
	Holdout int
	// TrainingQueries, at least 10, are the training points instead of the rows (the paper's separate
	// training query set, section 3); a part of them is held out for the tuner. They are not stored.
	TrainingQueries [][]float32 `json:"-"`
	// Seed: equal rows, options and seed give equal trees, tables, sketches and lists, but not equal
	// tuned settings (see Auto.Seed). Learner auto chooses by measured times, too.
	Seed uint64
}

func (o *Forest) request(bool) (kind.Options, error) {
	if o == nil {
		o = &Forest{}
	}
	b := &forestindex.Options{
		Kind: forest.Kind(o.Learner), Seed: o.Seed, TargetRecall: o.Recall, Trees: o.Trees, Depth: o.Depth,
		LabelsK: o.LeafNeighbors, Labels: o.Source,
		Quantize: o.Quantize, Members: o.Members, NoNatural: o.Tables == Off,
		Density: o.Density, Candidates: o.Candidates, Subsample: o.Subsample, MinVotes: o.MinVotes,
		NoTune: o.Tuning == Off, TuneK: o.TuneK, Holdout: o.Holdout, TrainingQueries: o.TrainingQueries,
	}
	if b.Kind == "" {
		b.Kind = forest.KD
	}
	if !slices.Contains(learners, b.Kind) {
		return b, fmt.Errorf("%w: unknown learner %q of forests, want one of %q", fail.Option, b.Kind, learners)
	}
	for _, part := range []struct {
		name   string
		on     Switch
		size   int
		stored *int
	}{
		{"Rotation", o.Rotation, o.Coordinates, &b.Rotate},
		{"Sketches", o.Sketches, o.SketchBytes, &b.SketchBytes},
		{"Lists", o.Lists, o.ListNeighbors, &b.HopLabels},
		{"Tables", o.Tables, 0, nil},
		{"Tuning", o.Tuning, 0, nil},
	} {
		if err := part.on.check(part.name); err != nil {
			return b, err
		}
		switch {
		case part.size < 0:
			return b, fmt.Errorf("%w: size %d of %s, want 0 or more", fail.Option, part.size, part.name)
		case part.on == Off && part.size > 0:
			return b, fmt.Errorf("%w: %s is off and has size %d", fail.Option, part.name, part.size)
		case part.stored != nil && part.on == Off:
			*part.stored = -1
		case part.stored != nil:
			*part.stored = part.size
		}
	}
	return b, nil
}

// publicForest returns the options of a forest that its stored ones stand for.
func publicForest(stored kind.Options) IndexOptions {
	b := stored.(*forestindex.Options)
	return &Forest{
		Learner: string(b.Kind), Recall: b.TargetRecall, Trees: b.Trees, Depth: b.Depth,
		LeafNeighbors: b.LabelsK, Source: b.Labels,
		Rotation: offIf(b.Rotate < 0), Coordinates: max(0, b.Rotate),
		Sketches: offIf(b.SketchBytes < 0), SketchBytes: max(0, b.SketchBytes),
		Lists: offIf(b.HopLabels < 0), ListNeighbors: max(0, b.HopLabels),
		Tables: offIf(b.NoNatural), Quantize: b.Quantize, Members: b.Members,
		Density: b.Density, Candidates: b.Candidates, Subsample: b.Subsample, MinVotes: b.MinVotes,
		Tuning: offIf(b.NoTune), TuneK: b.TuneK, Holdout: b.Holdout, Seed: b.Seed,
	}
}
