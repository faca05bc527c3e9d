// Package forest learns ensembles of space-partitioning trees and the label
// tables of their leaves: the partitioning classifiers of Hyvönen, Jääsaari
// and Roos 2022 (section 4). Learn grows the forests rp, kd, kd-chrono, pca
// and rf; a Forest routes vectors to leaves and hands out the leaves' tables.
//
// A Forest is nothing but flat arrays, so it works the same over freshly
// learned memory and over blocks in a memory map. Call Validate after loading
// arrays from outside: Route and Leaf rely on it.
package forest
