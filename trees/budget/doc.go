// Package budget learns and evaluates trees of budgeted linear classifiers for
// very many features and labels (Liu, Tsang: Making Decision Trees Feasible in
// Ultrahigh Feature and Label Dimensions, JMLR 18, 2017); problems, algorithms,
// equations and theorems are numbered as there.
//
// A budget-aware classifier (BAC, problem 4) is a linear decision with few
// features: TrainBAC finds it by the cutting-plane algorithm 1. Three trees
// stand on it. TrainSBT grows a supervised budgeted tree for two classes
// (algorithm 2) with embedded cross-validation (equation 11) and pruning, and
// TrainMulticlass one such tree a class against the rest. TrainPT grows a
// powerset tree (algorithm 3), whose leaves are the label sets seen in
// training, coded by Huffman; TrainAT an annotation tree (algorithm 4), whose
// nodes ask for one label after the other, the most frequent first.
//
// Follow makes a tree follow rows that come and go: counts are exact, and only
// the subtrees are learned anew of whose rows a share has changed.
//
// A Model holds any of them in flat arrays, which may be views over mapped
// memory. Predictor evaluates it without allocating. Explain and Picture, which
// WriteText, WriteDOT and WriteSVG write, make it readable: every decision is a
// short weighted sum of named features.
package budget
