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
	// Coordinates is the number of principal coordinates that kd, kd-chrono and rf split on. Zero means
	// min(64, Dim) for kd and auto, none otherwise; with NoRotation they split on the rows' own.
	Coordinates int
	NoRotation  bool
	SketchBytes int  // 64: principal coordinates; 128, 192 or 256: signs; zero: the build chooses
	NoSketches  bool // rows have no sketches
	// ListNeighbors is the number of neighbors in the list of a row, which beams and hops follow: at
	// most 1,024, 24 when zero.
	ListNeighbors int
	NoLists       bool // rows have no neighbor lists
	// NoTables omits the tables of the leaves with the nearest rows of their training points, which the
	// natural classifier uses. Then only voting and lookup search, which need Members.
	NoTables bool
	Quantize bool // store an 8-bit copy of float32 rows as a filter before the exact distances
	Members  bool // store the rows of each leaf, for voting and lookup
	// Density, Candidates, Subsample and MinVotes are those of the learner (forest.Params).
	Density                         float64
	Candidates, Subsample, MinVotes int
	// NoTune omits the tuner; queries must then specify their parameters. With fewer than 10 rows,
	// searches are exact scans until maintenance rebuilds the index.
	NoTune bool
	// TuneK is the k that the tuner measures most thoroughly, 10 when zero. If it is more than half
	// of the rows, searches are exact scans.
	TuneK int
	// Holdout is the number of rows that the tuner holds out as queries, 1000 when zero, at most
	// 100,000 and a tenth of the distinct rows. Equal rows are held out together and queried once.
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
		Quantize: o.Quantize, Members: o.Members, NoNatural: o.NoTables,
		Density: o.Density, Candidates: o.Candidates, Subsample: o.Subsample, MinVotes: o.MinVotes,
		NoTune: o.NoTune, TuneK: o.TuneK, Holdout: o.Holdout, TrainingQueries: o.TrainingQueries,
	}
	if b.Kind == "" {
		b.Kind = forest.KD
	}
	if !slices.Contains(learners, b.Kind) {
		return b, fmt.Errorf("%w: unknown learner %q of forests, want one of %q", fail.Option, b.Kind, learners)
	}
	for _, part := range []struct {
		name   string
		off    bool
		size   int
		stored *int
	}{
		{"Coordinates", o.NoRotation, o.Coordinates, &b.Rotate},
		{"SketchBytes", o.NoSketches, o.SketchBytes, &b.SketchBytes},
		{"ListNeighbors", o.NoLists, o.ListNeighbors, &b.HopLabels},
	} {
		switch *part.stored = part.size; {
		case part.size < 0:
			return b, fmt.Errorf("%w: %s is %d, want 0 or more", fail.Option, part.name, part.size)
		case part.off && part.size > 0:
			return b, fmt.Errorf("%w: %s is %d, and the part is left out", fail.Option, part.name, part.size)
		case part.off:
			*part.stored = -1
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
		NoRotation: b.Rotate < 0, Coordinates: max(0, b.Rotate),
		NoSketches: b.SketchBytes < 0, SketchBytes: max(0, b.SketchBytes),
		NoLists: b.HopLabels < 0, ListNeighbors: max(0, b.HopLabels),
		NoTables: b.NoNatural, Quantize: b.Quantize, Members: b.Members,
		Density: b.Density, Candidates: b.Candidates, Subsample: b.Subsample, MinVotes: b.MinVotes,
		NoTune: b.NoTune, TuneK: b.TuneK, Holdout: b.Holdout, Seed: b.Seed,
	}
}
