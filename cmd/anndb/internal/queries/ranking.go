package queries

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/rank"
)

// rankingFlags rerank the rows that a search finds, and continue it.
type rankingFlags struct {
	Boost     []string `placeholder:"FACTOR:FILTER" sep:"none"`
	Decay     []string `placeholder:"NAME=HALF[@ORIGIN]" sep:"none"`
	Linear    bool     `with:"decay"`
	Diversity float64  `default:"0" want:"0 1"`
	PerGroup  string   `placeholder:"NAME[=N]"`
	Depth     int      `default:"0" want:"0"`
	Page      int      `default:"1" want:"1"`
}

// reranks reports whether rows are reranked.
func (f *rankingFlags) reranks() bool {
	return len(f.Boost)+len(f.Decay) > 0 || f.Diversity > 0 || f.PerGroup != ""
}

// fill sets the options by which a search ranks rows.
func (f *rankingFlags) fill(o *rank.Options) error {
	o.Diversity, o.Depth = f.Diversity, f.Depth
	if o.GroupBy = f.PerGroup; o.GroupBy != "" {
		o.PerGroup = 1
		i := strings.LastIndexByte(f.PerGroup, '=')
		if n, err := strconv.Atoi(f.PerGroup[i+1:]); i > 0 && err == nil {
			o.GroupBy, o.PerGroup = f.PerGroup[:i], n
		}
		if o.PerGroup < 1 {
			return command.Usagef("--per-group %s: want at least one hit a group", f.PerGroup)
		}
	}
	for _, s := range f.Boost {
		number, condition, ok := strings.Cut(s, ":")
		x, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil {
			return command.Usagef("--boost %q: want a factor or, with a sign, a summand, a colon and a "+
				"filter, such as 1.5:label = new", s)
		}
		b := rank.Boost{Factor: x}
		if strings.ContainsAny(number[:1], "+-") {
			b = rank.Boost{Add: x}
		}
		if b.Where, err = filter.Parse(condition); err != nil {
			return command.Usagef("--boost %q: %v", s, err)
		}
		o.Boosts = append(o.Boosts, b)
	}
	for _, s := range f.Decay {
		name, half, ok := strings.Cut(s, "=")
		half, origin, hasOrigin := strings.Cut(half, "@")
		b := rank.Boost{Attribute: name, Half: span(half), Linear: f.Linear}
		if hasOrigin {
			b.Origin = value(origin)
		}
		if !ok || name == "" || !(b.Half > 0) || hasOrigin && b.Origin == nil {
			return command.Usagef("--decay %q: want an attribute and the distance at which half of a score "+
				"is left, such as price=20@100 or published=30d", s)
		}
		o.Boosts = append(o.Boosts, b)
	}
	return nil
}

// span reads a number, or a duration, as of days, as its seconds; 0 if it is none.
func span(s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err == nil {
		return x
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		x, _ = strconv.ParseFloat(days, 64)
		return x * (24 * time.Hour).Seconds()
	}
	d, _ := time.ParseDuration(s)
	return d.Seconds()
}

// value reads a number or a time; nil if it is none.
func value(s string) any {
	if x, err := strconv.ParseFloat(s, 64); err == nil {
		return x
	}
	v, err := dataset.TimeType.Parse(s)
	if err != nil {
		return nil
	}
	return v
}

// page searches for the hits of the page, and sets o.After to those before.
func (f *rankingFlags) page(
	ctx context.Context, c db.Collection, q db.Query, o *db.SearchOptions,
) (db.Result, error) {
	o.After = nil
	before := *o
	before.Reuse, before.Include, before.Explain = nil, 0, false
	for range f.Page - 1 {
		res, err := c.Search(ctx, q, &before)
		if err != nil {
			return res, err
		}
		before.After = slices.Concat(before.After, res.Hits)
	}
	o.After = before.After
	return c.Search(ctx, q, o)
}
