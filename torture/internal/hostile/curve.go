package hostile

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Values of one kind in several fields of one object, which single changes do not make: settings that are
// valid by themselves, and lead where no build leads.

// settings are values of the fields of query.Params, points those of a measured setting, curves those of a
// curve, labels those of lcif.Params.
var (
	numbers  = []any{0, 1, 2, 7, 1000, 1 << 31, 1 << 40, math.MaxInt, -1}
	shares   = []any{0, 0.5, 1, json.Number("1e-300"), json.Number("1e300"), -1}
	settings = map[string][]any{
		"method": {"natural", "natural-zero", "voting", "lookup", "flat"}, "trees": numbers, "votes": numbers, "extra": numbers,
		"r": numbers, "beam": numbers, "tau": shares, "gap": {0, 0.1, json.Number("3e38"), -1},
		"gap_floor": {0, 1, json.Number("3e38")}, "sketch": {true, false},
	}
	points = map[string][]any{"recall": shares, "users": shares, "micros": shares, "candidates": shares}
	curves = map[string][]any{
		"k": numbers, "queries": numbers, "sampled": numbers, "rows": numbers, "reach": shares,
		"usual": shares, "scan": shares, "depths": {nil},
	}
	labelParams = map[string][]any{
		"k": numbers, "alpha": shares, "beta": shares, "lambda": shares, "second_order": shares, "features": numbers,
		"top": numbers, "thresholds": {nil, map[string]any{"Single": 0.5}, map[string]any{"PerLabel": []any{0.5}}},
	}
)

// structure changes several fields of some objects of a manifest together. how is empty if it has none
// that it knows.
func (m *mutator) structure(root any) (how string) {
	type target struct {
		of     map[string]any
		values map[string][]any
	}
	var all []target
	var visit func(name string, x any)
	visit = func(name string, x any) {
		switch x := x.(type) {
		case map[string]any:
			switch {
			case name == "params" && x["method"] != nil:
				all = append(all, target{x, settings}, target{x, settings})
			case x["params"] != nil && x["recall"] != nil:
				all = append(all, target{x, points})
			case x["points"] != nil && x["k"] != nil:
				all = append(all, target{x, curves})
			case x["lambda"] != nil && x["k"] != nil:
				all = append(all, target{x, labelParams}, target{x, labelParams}, target{x, labelParams})
			}
			for _, k := range slices.Sorted(maps.Keys(x)) {
				visit(k, x[k])
			}
		case []any:
			for _, y := range x {
				visit(name, y)
			}
		}
	}
	visit("", root)
	if len(all) == 0 {
		return ""
	}
	for range 1 + m.rng.IntN(3) {
		t := all[m.rng.IntN(len(all))]
		names := slices.Sorted(maps.Keys(t.values))
		for range 1 + m.rng.IntN(3) {
			name := names[m.rng.IntN(len(names))]
			value := t.values[name][m.rng.IntN(len(t.values[name]))]
			t.of[name] = value
			how += fmt.Sprintf("%s of an object is %.40v, ", name, value)
		}
	}
	return how
}
