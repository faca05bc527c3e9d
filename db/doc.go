// Package db is an embedded database of vectors and texts in one file, with learned indexes for
// nearest neighbors and labels. docs/GUIDE.md describes the data model, the kinds of index, and what
// to know before relying on them.
//
// A Collection is a handle by name: of the database it sees the latest state at each call, of a
// Snapshot one committed state. DB.Update runs a transaction (Tx). Collection.Build makes an index
// of a kind of package index, one that finds rows (index.Forest, index.Postings) or predicts labels
// (index.LCIF, index.Trees); Collection.Search and Collection.Predict use it. Package filter restricts
// both. Queries cover every row written before them, indexed or not. Readers and writers never wait
// for each other. Results are copies and never alias the file.
//
// Damage is reported as ErrCorrupt, never as a wrong answer or a crash: DB.Check verifies
// everything, DB.Repair rebuilds damaged indexes, rescue.Salvage recovers the rows of a damaged file.
package db
