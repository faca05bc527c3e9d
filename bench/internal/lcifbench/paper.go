package lcifbench

import "github.com/anndb/anndb/query/lcif"

// paperSets are the columns of paperTable2.
var paperSets = []string{"medical", "corel5k", "bibtex", "delicious", "imdb"}

// paperTable2 is Table 2 of the paper: by measure and variant, a figure for
// each of paperSets.
var paperTable2 = map[lcif.Objective]map[Variant][5]float64{
	lcif.Accuracy: {
		InstanceOnly: {0.563, 0.163, 0.347, 0.230, 0.250},
		FeatureOnly:  {0.601, 0.174, 0.218, 0.122, 0.235},
		Combined:     {0.636, 0.170, 0.341, 0.230, 0.250},
	},
	lcif.MicroF1: {
		InstanceOnly: {0.622, 0.266, 0.426, 0.368, 0.341},
		FeatureOnly:  {0.645, 0.263, 0.276, 0.214, 0.337},
		Combined:     {0.690, 0.274, 0.427, 0.369, 0.346},
	},
	lcif.MacroF1: {
		InstanceOnly: {0.339, 0.315, 0.321, 0.180, 0.090},
		FeatureOnly:  {0.447, 0.308, 0.129, 0.067, 0.055},
		Combined:     {0.492, 0.315, 0.328, 0.181, 0.084},
	},
	lcif.HammingLoss: {
		InstanceOnly: {0.025, 0.014, 0.017, 0.025, 0.094},
		FeatureOnly:  {0.026, 0.010, 0.017, 0.030, 0.083},
		Combined:     {0.021, 0.010, 0.014, 0.024, 0.082},
	},
}

// PaperTable2 is the paper's figure; ok is false if it has none.
func PaperTable2(set string, o lcif.Objective, v Variant) (figure float64, ok bool) {
	for i, s := range paperSets {
		if figures, known := paperTable2[o][v]; s == set && known {
			return figures[i], true
		}
	}
	return 0, false
}

// PaperTable3 is the paper's figure for an extreme set: only its Eurlex, which
// eurlex57k resembles.
func PaperTable3(o lcif.Objective, v Variant) (figure float64, ok bool) {
	figures, known := map[lcif.Objective]map[Variant]float64{
		lcif.MicroF1:      {InstanceOnly: 0.506, FeatureOnly: 0.222, Combined: 0.517},
		lcif.MacroF1:      {InstanceOnly: 0.509, FeatureOnly: 0.381, Combined: 0.512},
		lcif.PrecisionAt1: {InstanceOnly: 0.763, FeatureOnly: 0.407, Combined: 0.776},
		lcif.PrecisionAt3: {InstanceOnly: 0.611, FeatureOnly: 0.302, Combined: 0.622},
		lcif.PrecisionAt5: {InstanceOnly: 0.504, FeatureOnly: 0.244, Combined: 0.514},
	}[o]
	figure, ok = figures[v]
	return figure, ok && known
}

// EurlexTarget is the least that LCIF must reach on the test part of eurlex57k;
// ok is false for measures without such a bar.
func EurlexTarget(o lcif.Objective) (least float64, ok bool) {
	least, ok = map[lcif.Objective]float64{lcif.PrecisionAt1: 0.855, lcif.PrecisionAt3: 0.695, lcif.PrecisionAt5: 0.550}[o]
	return least, ok
}
