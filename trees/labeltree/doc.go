// Package labeltree learns linear classifiers of labels in a tree over the labels.
//
// A node has a classifier for each of its children: nodes, or labels at the lowest level. A tree of one level
// is one-against-rest. With more labels than Params.Flat the tree has two levels or more, each node about as
// many children; labels with similar rows share a node, found by balanced spherical k-means over the mean
// rows of labels (Prabhu and others 2018, Parabel; Jain and others 2019, Slice). Levels are learned from the
// root down. A node learns from the rows that have a label below it and from those that the levels above
// would wrongly lead to it, which are its hardest negatives (Jiang and others 2021, LightXML, call them
// matcher-aware).
//
// Each classifier is an L2-regularised linear SVM with squared hinge loss,
//
//	½‖w‖² + C Σᵢ max(0, 1 − yᵢ w·xᵢ)²
//
// learned by dual coordinate descent with shrinking (Hsieh and others 2008, algorithms 1 and 2), where each
// row has one feature more, of value 1, for the offset. Small weights are dropped. The weights of a node are
// stored by feature, so that one pass over the features of a query scores all children. The score of a label
// is the product of the logistic functions of the margins on its path, those of nodes to a power below 1.
package labeltree
