// Package forestbench measures what the paper compares (Hyvönen, Jääsaari and Roos
// 2022, section 9): recall and time per query of every forest with every way
// of selecting candidates, each at its own best depth, number of trees and
// threshold. Corpus and forests are in memory, searched by package query
// without sketches, label hops or 8-bit filters.
//
// Run makes the measurements, Best and Verdicts read them.
package forestbench
