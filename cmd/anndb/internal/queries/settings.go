package queries

import (
	"fmt"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/query"
)

// Methods are the names of the ways to select candidates.
var Methods = []query.Method{query.Natural, query.NaturalZero, query.Voting, query.Lookup, query.Flat}

// Choice is the one of all that a flag names.
func Choice[T fmt.Stringer](flag, name string, all []T) (one T, err error) {
	names := make([]string, len(all))
	for i, x := range all {
		if names[i] = x.String(); names[i] == name {
			return x, nil
		}
	}
	return one, command.Usagef("%s %q (want one of %s)", flag, name, strings.Join(names, ", "))
}

// SettingFlags are the parameters of a search beside its method.
type SettingFlags struct {
	Trees    int     `default:"0" want:"0" with:"method"`
	Tau      float64 `default:"0" want:"0 1" with:"method"`
	Votes    int     `default:"2" want:"0" with:"method"`
	Extra    int     `default:"0" want:"0" with:"method"`
	Sketch   int     `aliases:"r" default:"0" want:"0" with:"method"`
	Hops     int     `default:"0" want:"0" with:"method"`
	HopFrom  int     `default:"0" want:"0" with:"method"`
	HopWidth int     `default:"0" want:"0" with:"method"`
	Beam     int     `default:"0" want:"0" with:"method"`
	Rerank   int     `default:"0" want:"0" with:"method"`
}

// DefaultSettings are the flags as they are when none is given.
var DefaultSettings = SettingFlags{Votes: 2}

// ErrSettings is the error for settings without the method that they belong to.
var ErrSettings = command.Usagef("--trees, --tau, --votes, --extra, --sketch, --hops, --hop-from, " +
	"--hop-width, --beam and --rerank go with --method")

// Params are the flags as package query takes them.
func (f SettingFlags) Params(m query.Method) (query.Params, error) {
	counts := []struct {
		flag string
		n    int
	}{
		{"trees", f.Trees}, {"votes", f.Votes}, {"extra", f.Extra}, {"sketch", f.Sketch}, {"hops", f.Hops},
		{"hop-from", f.HopFrom}, {"hop-width", f.HopWidth}, {"beam", f.Beam}, {"rerank", f.Rerank},
	}
	for _, c := range counts {
		if c.n < 0 {
			return query.Params{}, command.Usagef("--%s must not be negative", c.flag)
		}
	}
	if !(f.Tau >= 0 && f.Tau <= 1) {
		return query.Params{}, command.Usagef("--tau %g (want 0 to 1)", f.Tau)
	}
	return query.Params{
		Method: m, Trees: f.Trees, Tau: f.Tau, Votes: f.Votes, Extra: f.Extra,
		Sketch: f.Sketch > 0, R: f.Sketch, Hops: f.Hops, HopFrom: f.HopFrom, HopWidth: f.HopWidth, Beam: f.Beam,
		Quant: f.Rerank > 0, Rerank: f.Rerank,
	}, nil
}
