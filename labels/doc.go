// Package labels holds label matrices and what is computed from them alone.
//
// [Neighbors] is the label matrix of the multilabel view of search (Hyvönen
// 2022, section 3): for every training point the corpus rows that are its
// nearest neighbours, nearest first, which is what partitions learn to predict
// and what a query's label hops walk. [ExactNeighbors] computes it,
// [ApproximateNeighbors] nearly, in a small part of the time.
//
// [Matrix] is the label matrix of labelled data (Feremans et al. 2020, LCIF):
// rows with sets of labels, kept both ways. Around it stand the measures of
// predictions ([Evaluate] for sets, [EvaluateRanking] for scores), the
// thresholds that make sets of scores ([SingleThreshold], [LabelThresholds]),
// the exact sums behind the feature–label similarities ([FeatureLabels]), the
// choice of features by entropy ([SelectFeatures]) and divisions into rows to
// learn from and to try ([KFold], [RandomSplit]). Definitions and algorithms
// are numbered as in that paper.
//
// Scores are a vector.CSR with a row for each instance and a column for each
// label. A label that is not listed has the score zero; none is negative.
package labels
