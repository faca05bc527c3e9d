package queries

import "github.com/anndb/anndb/query"

// SettingFlags are the parameters of a search beside its method.
type SettingFlags struct {
	Trees  int     `default:"0" want:"0" with:"method"`
	Tau    float64 `default:"0" want:"0 1" with:"method"`
	Votes  int     `default:"2" want:"0" with:"method"`
	Extra  int     `default:"0" want:"0" with:"method"`
	Sketch int     `aliases:"r" default:"0" want:"0" with:"method"`
	Beam   int     `default:"0" want:"0" with:"method"`
}

// Params are the flags as package query takes them.
func (f SettingFlags) Params(m query.Method) query.Params {
	return query.Params{
		Method: m, Trees: f.Trees, Tau: f.Tau, Votes: f.Votes, Extra: f.Extra,
		Sketch: f.Sketch > 0, R: f.Sketch, Beam: f.Beam,
	}
}
