// Package db is the public API of anndb: an embedded database of vector collections in one file,
// with learned indexes for nearest neighbors and labels. docs/GUIDE.md describes the data model,
// the kinds of index, and what to know before relying on them.
//
// Dense collections hold float32 vectors of one dimension, sparse ones features by number or by
// name. Collection.Build makes an index that finds rows (Forest, Postings) or predicts labels (LCIF,
// SBT, PT, AT); Collection.Search and Collection.Predict use it. Every query also covers the rows
// written since an index was built, and excludes deleted rows. Maintenance extends the indexes to
// them, by default in the background (Options.Maintenance).
//
// A Collection is a handle by name: of the database it sees the latest state at each call, of a
// Snapshot one committed state. DB.Update runs a transaction (Tx), which sees its own changes: all
// are written or none, and they are durable when it returns nil. Readers and writers never wait for
// each other. Results never alias the file: keys, vectors, labels and payloads are copies.
//
// Damage is reported as ErrCorrupt with its location (CorruptError), never as a wrong answer or a
// crash. DB.Check verifies everything, DB.Repair rebuilds damaged indexes, and Salvage recovers the
// rows of a damaged file. After a commit has failed, the handle refuses writes (ErrUnknownState)
// until the file is opened again: the commit happened completely or not at all.
package db
