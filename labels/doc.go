// Package labels holds label matrices and what is computed from them alone.
//
// [Neighbors] is the label matrix of the multilabel view of search (Hyvönen 2022, section 3):
// for every training point the corpus rows that are its nearest neighbours, nearest first.
// Partitions learn to predict it, and label hops follow it during a query. [ExactNeighbors]
// computes it exactly, [ApproximateNeighbors] approximately in a small part of the time.
//
// [Matrix] is the label matrix of labelled data (Feremans et al. 2020, LCIF): rows with sets of
// labels, stored by row and by label. The package also holds the measures of predictions
// ([Evaluate] for sets, [EvaluateRanking] for scores), the thresholds that turn scores into
// sets ([SingleThreshold], [LabelThresholds]), the exact sums behind the feature–label
// similarities ([FeatureLabels]), the choice of features by entropy ([SelectFeatures]) and
// divisions of rows into training and test parts ([KFold]). Definitions and
// algorithms are numbered as in that paper.
//
// Scores are a vector.CSR with a row for each instance and a column for each label. A label
// that is not listed has the score zero; no score is negative.
package labels
