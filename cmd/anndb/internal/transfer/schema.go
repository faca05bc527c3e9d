package transfer

import (
	"cmp"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// checkKind refuses flags that do not suit the file or the collection.
func (c *Import) checkKind(in *input.File, known *db.CollectionInfo) error {
	switch in.Kind {
	case dataset.Text:
		switch {
		case c.Named || c.Sparse || c.Dense, in.Dim == 0 && c.Embed == "" && (c.Float32 || c.Metric != ""):
			return command.Usagef("--sparse, --dense, --named, --metric and --float-32 are not for texts, "+
				"and %s holds texts", c.Input)
		case known != nil && known.Dim == 0 && c.Embed != "":
			return command.Usagef("--embed makes vectors, and collection %q has texts without vectors", known.Name)
		case known != nil && text.ByName(known.Text.Analyzer) == nil:
			return command.Usagef("collection %q has the analyzer %s, which only the program that made it has: "+
				"import with that program", known.Name, known.Text.Analyzer)
		case known != nil && c.Analyzer != "" && c.Analyzer != known.Text.Analyzer:
			return command.Usagef("--analyzer %s: collection %q exists with the analyzer %s", c.Analyzer,
				known.Name, known.Text.Analyzer)
		}
		if known != nil && c.Pairs != 0 && c.Pairs != known.Text.Pairs {
			return command.Usagef("--pairs %d: collection %q exists with %d", c.Pairs, known.Name,
				known.Text.Pairs)
		}
		return c.checkExisting(known)
	case dataset.Sparse:
		switch {
		case c.Float32 || c.Metric != "" && c.Metric != vector.Cosine.String():
			return command.Usagef("--float-32 and --metric are for dense collections: " +
				"sparse rows are float32 and compared by cosine")
		case c.Named && in.FeatureNames == nil:
			return command.Usagef("--named: %s has no names of features", c.Input)
		}
		return nil
	}
	return c.checkExisting(known)
}

// checkExisting refuses options that say something else than a collection that is
// there already.
func (c *Import) checkExisting(info *db.CollectionInfo) error {
	if info == nil {
		return nil
	}
	if c.Metric != "" && c.Metric != info.Metric.String() {
		return command.Usagef("--metric %s: collection %q exists with metric %s", c.Metric, info.Name, info.Metric)
	}
	if c.Float32 && !info.Float32 {
		return command.Usagef("--float-32: collection %q exists and stores bytes where they lose nothing",
			info.Name)
	}
	return nil
}

// schema returns the description of a new collection for the records of a file.
func (c *Import) schema(a *command.App, in *input.File) (info *db.CollectionInfo, err error) {
	info = &db.CollectionInfo{Name: c.Collection}
	s := &info.Schema
	switch in.Kind {
	case dataset.Text:
		s.Text = c.texts()
		if in.Dim == 0 && c.Embed == "" {
			return info, nil
		}
	case dataset.Sparse:
		named := c.Named || in.NamesItself()
		s.Sparse, s.Named, s.Numbering = true, named, in.Numbering(named)
		if in.Distance != "" {
			a.Note("%s is for the distance %q: sparse rows are compared by cosine", in.Path, in.Distance)
		}
		return info, nil
	}
	s.Dim = in.Dim
	s.Float32 = c.Float32
	if in.Filled {
		s.Numbering = in.Numbering(false)
	}
	s.Metric, err = vector.ParseMetric(cmp.Or(c.metric(a, in), "l2"))
	return info, err
}

// texts describes the texts of a collection that has had none.
func (c *Import) texts() *text.Schema {
	return &text.Schema{Analyzer: cmp.Or(c.Analyzer, text.Words), Pairs: c.Pairs}
}

// metric returns the metric of a new collection: that of the flag, or by the distance that the file
// records, as those of ann-benchmarks do; empty if there is neither.
func (c *Import) metric(a *command.App, in *input.File) string {
	if c.Metric != "" || in.Distance == "" {
		return c.Metric
	}
	m := map[string]string{
		"euclidean": "l2", "hamming": "l2", "angular": "cosine", "cosine": "cosine", "dot": "ip", "ip": "ip",
	}[in.Distance]
	if m == "" {
		a.Note("%s is for the distance %q, which is not supported: the metric is l2", in.Path, in.Distance)
	} else {
		a.Note("%s is for the distance %q: the metric is %s (--metric selects another one)",
			in.Path, in.Distance, m)
	}
	return m
}
