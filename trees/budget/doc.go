// Package budget learns and evaluates trees of budgeted linear classifiers for
// very many features and labels (Liu, Tsang: Making Decision Trees Feasible in
// Ultrahigh Feature and Label Dimensions, JMLR 18, 2017); problems, algorithms,
// equations and theorems are numbered as there.
//
// A budget-aware classifier (BAC, definition 6) is a linear decision with few
// features. TrainBAC finds it by cutting planes: by default over disjoint sets of
// features, which approximates algorithm 1 in a few rounds, or by algorithm 1 to
// ε-optimality with BACParams.Exact.
//
// What is minimised is not problem 4 but what the paper's reference for solving it
// (Tan, Tsang, Wang, JMLR 15, 2014) minimises: over the sets h of B features
//
//	½(Σₕ‖ωₕ‖)² + ½C Σᵢ max(0, 1 − yᵢ(Σₕ ωₕ·xᵢₕ + b))²
//
// The loss is the squared hinge, so that the dual variables αᵢ = C·max(0, 1 − yᵢf(xᵢ))
// have no upper bound; problem 4 has the linear hinge with a margin γ that is
// maximised, αᵢ ≤ C and Σαᵢ ≥ 1. The offset b is free and not regularised; the paper
// leaves it out, as BACParams.NoOffset does. C is therefore on another scale than the
// paper's. In problem 4 it is at least 1/n, and 1/(C·n) bounds the share of margin
// errors; its solution is that of an SVM with linear hinge whose cost is
// C/(γ‖Σᵢαᵢyᵢxᵢ‖), which depends on the data. Here C is the cost of one row, whatever
// their number, for rows of about unit length. The paper's values of C do
// not carry over: choose C by cross-validation.
//
// Train trains three kinds of trees of such classifiers: SBT (algorithm 2), a
// supervised budgeted tree with embedded cross-validation (equation 11) and pruning,
// for two classes or one per class against the rest; PT (algorithm 3), a powerset
// tree, whose leaves are the label sets seen in training, coded by Huffman; and AT
// (algorithm 4), an annotation tree, whose nodes decide one label after the other,
// the most frequent first. Choose finds their parameters by cross-validation.
//
// A Model holds any of them in flat arrays, which may be views over mapped
// memory. Predictor evaluates it without allocating. Explain and Picture, which
// WriteText and WriteDOT write, make it readable: every decision is a
// short weighted sum of named features.
package budget
