// Package forest learns ensembles of space-partitioning trees and the label
// tables of their leaves: the partitioning classifiers of Hyvönen, Jääsaari
// and Roos 2022 (section 4). Learn grows the forests rp, kd, kd-chrono, pca
// and rf; a Forest routes vectors to leaves and returns the leaves' tables.
//
// A Forest consists of flat arrays, so it works the same on newly allocated
// memory and on blocks in a memory map. Call Validate after loading arrays from
// untrusted memory: Route and Leaf rely on it.
package forest
