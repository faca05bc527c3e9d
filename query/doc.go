// Package query turns index structures into answers. It selects candidates with a forest read
// as a multilabel classifier (Hyvönen, Jääsaari and Roos 2022, sections 4 and 6), follows
// neighbor lists by sketch, and computes the exact distances of the best rows. It also tunes the
// parameters of that pipeline on held-out rows and explains single answers. Package lcif below it
// predicts labels.
//
// The package is independent of storage: a View consists of slices and pointers that its
// creator keeps alive, typically a memory map. A Searcher holds all scratch memory, so that a
// search allocates nothing in steady state; use one per goroutine.
//
// Distances are internal ones, and smaller is nearer for every metric: squared Euclidean for
// L2, 1 - cosine for Cosine, the negated dot product for InnerProduct.
package query
