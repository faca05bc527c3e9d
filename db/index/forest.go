package index

import (
	"cmp"
	"reflect"

	"github.com/anndb/anndb/trees/forest"
)

// Forest are the options of a forest, which finds rows of a dense collection. The zero value is a
// good general index: k-d trees over principal coordinates with sketches and neighbor lists, tuned
// on held-out rows.
type Forest struct {
	// Learner is "kd" (also when empty), "kd-chrono", "rp", "pca" or "rf".
	Learner string `enum:"kd,kd-chrono,rp,pca,rf"`
	// Trees is the number of trees: 2 when zero if the index has tables, sketches and lists, else 16.
	Trees int `flag:"trees" min:"0" max:"4096"`
	// Depth is the number of levels of a tree, at most two leaves per row. Zero selects the depth at
	// which a leaf holds three and a half to seven rows, or one level less if Trees is 2 by default.
	Depth int `flag:"depth" min:"0" max:"24"`
	// LeafNeighbors is the number of nearest rows (the row itself first) that a training point adds to
	// the table of its leaf. Zero means 4 if Trees is 2 by default, else 50.
	LeafNeighbors int `flag:"leaf-neighbors" min:"0" max:"4096"`
	// Source selects how nearest rows are found: "exact", "approximate", or when empty exact if that
	// takes only seconds. Those of TrainingQueries are always exact.
	Source string `flag:"source" enum:"exact,approximate"`
	// Coordinates is the number of principal coordinates that kd, kd-chrono and rf split on. Zero means
	// min(64, Dim) for kd, none otherwise; with NoRotation they split on the rows' own.
	Coordinates int  `flag:"coordinates" min:"0"`
	NoRotation  bool `flag:"no-rotation"`
	// SketchBytes is 64 for principal coordinates, 128, 192 or 256 for signs; zero lets the build choose.
	SketchBytes int  `flag:"sketch-bytes" enum:"64,128,192,256"`
	NoSketches  bool `flag:"no-sketches"` // rows have no sketches
	// ListNeighbors is the number of neighbors in the list of a row, which beams follow: 24 when zero.
	ListNeighbors int  `flag:"list-neighbors" min:"0" max:"1024"`
	NoLists       bool `flag:"no-lists"` // rows have no neighbor lists
	// NoTables omits the tables of the leaves with the nearest rows of their training points, which the
	// natural classifier uses. Then only voting and lookup search, which need Members.
	NoTables bool `flag:"no-tables"`
	Members  bool `flag:"members"` // store the rows of each leaf, for voting and lookup
	// NoTune omits the tuner; queries must then specify their parameters. With fewer than 10 rows,
	// searches are exact scans until maintenance rebuilds the index.
	NoTune bool `flag:"no-tune"`
	// TuneK is the k that the tuner measures most thoroughly, 10 when zero. If it is more than half
	// of the rows, searches are exact scans.
	TuneK int `flag:"tune-k" min:"0"`
	// Holdout is the number of rows that the tuner holds out as queries, 1000 when zero, at most
	// a tenth of the distinct rows. Equal rows are held out together and queried once.
	Holdout int `flag:"holdout" min:"0" max:"100000"`
	// TrainingQueries, at least 10, are the training points instead of the rows (the paper's separate
	// training query set, section 3); a part of them is held out for the tuner. They are not stored.
	TrainingQueries [][]float32 `json:"-"`
	// Seed: equal rows, options and seed give equal trees, tables, sketches and lists. The tuner chooses
	// settings by measured times, so these may differ, and with them the answers of searches that are
	// not exact.
	Seed uint64 `flag:"seed"`
}

// Name returns the learner.
func (o *Forest) Name() string { return cmp.Or(o.Learner, string(forest.KD)) }

// Check refuses options that no forest can be built with.
func (o *Forest) Check(dim int) error {
	if err := checkTags(reflect.ValueOf(*o), ""); err != nil {
		return err
	}
	turns := o.Learner != string(forest.RP) && o.Learner != string(forest.PCATree)
	switch {
	case o.NoTables && !o.Members:
		return refuse("{NoTables} goes with {Members}: otherwise no search finds rows")
	case o.NoRotation && o.Coordinates > 0:
		return refuse("{NoRotation} and {Coordinates} exclude each other")
	case o.NoSketches && o.SketchBytes > 0:
		return refuse("{NoSketches} and {SketchBytes} exclude each other")
	case o.NoLists && o.ListNeighbors > 0:
		return refuse("{NoLists} and {ListNeighbors} exclude each other")
	case !turns && o.Coordinates > 0:
		return refuse("{Coordinates} are for learners that split on one coordinate, not for %s", o.Learner)
	case len(o.TrainingQueries) > 0 && len(o.TrainingQueries) < 10:
		return refuse("{TrainingQueries}: %d vectors (want at least 10)", len(o.TrainingQueries))
	case dim > 0 && o.Coordinates > dim:
		return refuse("{Coordinates} %d (want at most %d, the dimension of the collection)", o.Coordinates, dim)
	}
	return nil
}
