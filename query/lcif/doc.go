// Package lcif predicts the labels of rows by LCIF (Feremans et al. 2020): it combines the labels
// of the nearest rows with the labels of the features (View, Predictor), and Tune chooses the
// parameters on held-out rows.
//
// Like package query it is independent of storage: a View consists of slices and pointers that
// its creator keeps alive, typically a memory map. A Predictor holds all scratch memory, so that
// a prediction allocates nothing in steady state; use one per goroutine. Neighbors come from
// segments of an inverted index, or over dense rows from a search of package query. Errors are
// those of package query.
package lcif
