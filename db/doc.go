// Package db is the public door of anndb: an embedded database of vector
// collections in one file, with learned indexes for nearest-neighbour search.
//
// Dense collections hold float32 vectors of one dimension; forests find their
// nearest rows (DB.Build, Snapshot.Search). Sparse collections hold features by
// number or by name; inverted indexes find the exact nearest rows by cosine
// (KindPostings, Snapshot.SearchSparse). Rows of both may carry labels, which
// label models learn to predict (KindLCIF, KindSBT, KindPT, KindAT,
// Snapshot.Predict).
//
// # Writing
//
// DB.Update applies a Batch: all of it or none, durable when it returns nil.
// Concurrent updates wait in line and share commits. An update of an existing
// key appends a new row and buries the old one under a tombstone; a chunk of
// rows (about 1 MiB) is sealed into immutable, checksummed blocks by the
// transaction that fills it.
//
// # Reading
//
// A Snapshot is one committed state for as long as it is held. All readers of
// a state share one read transaction and one set of pointer tables, built by
// the first of them, so taking a snapshot costs about as much as a mutex.
// Readers never wait for writers, nor writers for readers. A held snapshot
// keeps the pages of its state from being reused: release it soon.
//
// Results never alias the file: keys, vectors, labels and payloads are copies.
//
// # Maintenance
//
// Indexes cover the rows there were when they were built. Later rows are seen
// by every query all the same, ranked by sketch or compared one by one, and
// deleted ones by none. DB.Maintain makes the indexes cover them, by call or in
// the background (Options.Maintenance): in steps of one transaction, at a cost
// that follows the change where the kind of index allows it. Objects that
// several generations of an index share are named by the catalog. DB.Stats tells
// how far the indexes are behind; so does Peek to other processes, beside the one
// that writes.
//
// # Damage
//
// Every block carries a checksum that covers its key, header and payload, and
// is verified the first time a process touches it; so does every entry that
// maps a key or a label. bbolt's pages have none: the process walks those of a
// bucket, trusting nothing, before bbolt may, and all of them before the first
// write, so that no entry can be hidden. Damage is ErrCorrupt with a
// place (CorruptError), never a wrong answer and never a crash: reads turn
// memory faults, such as those of a file truncated behind our back, into
// errors. DB.Check verifies everything without trusting anything, DB.Repair
// builds damaged indexes anew, Salvage saves the rows of a damaged file, even of
// one that has lost its catalog.
//
// # Failure
//
// A commit that failed leaves the handle refusing writes (ErrStateUnknown)
// until the file is opened again: the commit happened whole or not at all, and
// only the file knows. A full disk is also ErrNoSpace.
package db
