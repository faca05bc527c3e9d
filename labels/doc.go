// Package labels holds the label matrices of the multilabel view of search
// (Hyvönen 2022, section 3): for every training point the corpus rows that
// are its nearest neighbours, nearest first, which is what partitions learn
// to predict and what a query's label hops walk.
package labels
