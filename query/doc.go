// Package query turns index structures into answers: it selects candidates
// with a forest read as a multilabel classifier (Hyvönen, Jääsaari and Roos
// 2022, sections 4 and 6), narrows them by sketches and an 8-bit copy, follows
// label lists, and finishes with exact distances. It also tunes the parameters
// of that pipeline on held-out rows and explains single answers.
//
// It predicts labels of labelled rows, too: LCIF (Feremans et al. 2020) combines
// the labels of the nearest rows with those of the features (LCIFView,
// Predictor), and TuneLCIF chooses its parameters on rows held out.
//
// The package knows views, not storage: a View is slices and pointers that
// somebody else keeps alive, typically a memory map. A Searcher holds all
// scratch memory, so that a search allocates nothing in steady state; use one
// per goroutine.
//
// Distances are internal ones, smaller is nearer for every metric: squared
// Euclidean for L2, 1 - cosine for Cosine, the negated dot product for
// InnerProduct.
package query
