package indexes

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/query"
)

// buildReport describes a finished build.
func buildReport(info index.Info, settings int) []table.Section {
	stages, seconds := table.New("stage", "seconds:2"), info.BuildSeconds
	for _, name := range slices.SortedFunc(maps.Keys(seconds), func(a, b string) int {
		return cmp.Or(cmp.Compare(seconds[b], seconds[a]), cmp.Compare(a, b))
	}) {
		stages.Add(name, seconds[name])
	}
	return []table.Section{
		IndexTable(info).As("index", ""),
		stages.As("stages", "Where the time went"),
		memoryTable(info).As("memory", ""),
		LabelsTable(info).As("approximate", "Approximate labels"),
		TreeTable(info).As("tree", TreeTitle),
		bytesTable(info).As("bytes", "Where the bytes are"),
		CurveTable(info.Curve, settings == math.MaxInt).As("curve", "Settings by recall"),
		SettingsTable(info, settings).As("settings", SettingsTitle(info)),
		TrialsTable(info, settings).As("trials", TrialsTitle(info)),
		MembersTable(info).As("members", MembersTitle(info)),
	}
}

// IndexTable has one row an index.
func IndexTable(infos ...index.Info) *table.Table {
	t := table.New("index", "kind", "trees", "depth", "rotate", "covered", "size", "seconds:1",
		"trained_on", "setting")
	for _, i := range infos {
		var seconds float64
		for _, s := range i.BuildSeconds {
			seconds += s
		}
		var trees, depth, rotate, points any
		if o, ok := i.Options.(*index.Forest); ok {
			trees, depth, rotate, points = o.Trees, o.Depth, o.Coordinates, i.TrainingPoints
		}
		t.Add(i.Name, i.Kind, trees, depth, rotate, i.Rows, table.Size(i.TotalBytes()), seconds, points,
			SparseSetting(i))
	}
	return t
}

// memoryTable is the most memory that a build held.
func memoryTable(info index.Info) *table.Table {
	t := table.New("memory")
	if n := info.BuildMemory; n > 0 {
		t.Add(table.Size(n))
	}
	return t
}

// LabelsTable shows the recall of approximate labels, and to which share of the rows paths along the
// lists lead; it is empty where all are exact.
func LabelsTable(infos ...index.Info) *table.Table {
	t := table.New("index", "labels", "recall:4", "recall_10:4", "reached:4", "sample", "rounds")
	for _, i := range infos {
		if r := i.Neighbors; r != nil {
			t.Add(i.Name, r.K, r.Recall, r.HeadRecall, i.Reached, r.Sample, r.Rounds)
		}
	}
	return t
}

func bytesTable(info index.Info) *table.Table {
	t := table.New("section", "size")
	for _, name := range slices.Sorted(maps.Keys(info.Bytes)) {
		t.Add(name, table.Size(info.Bytes[name]))
	}
	return t
}

// CurveTable is what the tuner measured for its number of neighbors, or for all numbers: the recall that a
// setting promises, and the mean ones of rows that were held out and of users' queries.
func CurveTable(c *query.Curve, all bool) *table.Table {
	t := table.New("k", "recall:4", "held:4", "users:4", "micros:1", "candidates:0", "setting")
	if c == nil {
		return t
	}
	curves := []query.Curve{*c}
	if all {
		curves = append(curves, c.Depths...)
	}
	for _, c := range curves {
		for _, p := range c.Points {
			var users any
			if c.Sampled > 0 {
				users = p.Users
			}
			t.Add(c.K, c.Promise(&p), p.Recall, users, p.Micros, p.Candidates, SettingText(p.Params))
		}
	}
	return t
}

// CurveTitle is the title of that table.
func CurveTitle(i index.Info) string {
	title := "Settings of " + i.Name + " by recall"
	if c := i.Curve; c != nil && c.Rows > 0 {
		title += fmt.Sprintf(", last measured with %d queries on %d rows on %s", c.Queries, c.Rows,
			c.Measured.Format(time.DateTime))
	}
	if c := i.Curve; c != nil && c.Scan > 0 {
		title += fmt.Sprintf(" (an exact scan: %.0f micros)", c.Scan)
	}
	return title
}

// SettingText is a setting on one line: only what the method uses.
func SettingText(p query.Params) string {
	s := p.Method.String()
	add := func(name string, used bool, v any) {
		if used {
			s += fmt.Sprintf(" %s=%v", name, v)
		}
	}
	add("trees", p.Trees > 0, p.Trees)
	add("tau", p.Method == query.Natural, fmt.Sprintf("%.3g", p.Tau))
	add("votes", p.Method == query.Voting, max(1, p.Votes))
	add("extra", p.Extra > 0, p.Extra)
	add("sketch", p.Sketch, p.R)
	add("beam", p.Beam > 0, p.Beam)
	return s
}
