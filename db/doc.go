// Package db is the public API of anndb: an embedded database of vector collections
// in one file, with learned indexes for nearest neighbors and labels.
//
// Dense collections hold float32 vectors of one dimension; forests find their
// nearest rows (Collection.Build, Collection.Search). Sparse collections hold features by
// number or by name; inverted indexes find the exact nearest rows by cosine
// (Postings). Rows of both may carry labels, which label models learn to
// predict (LCIF, SBT, PT, AT, Collection.Predict).
//
// A Collection is a handle by name: of the database it sees the latest state at each
// call, of a snapshot the snapshot's. A TxCollection sees and makes the changes of a
// transaction.
//
// # Writing
//
// DB.Update runs a transaction (Tx): all of its changes are written or none, and they
// are durable when it returns nil. Its reads see its own changes and one committed
// state. Concurrent updates share commits. Putting a row whose key exists appends a
// new row and marks the old one deleted; the transaction that completes a chunk of
// rows (about 1 MiB) writes it as immutable, checksummed blocks. New labels or a new
// payload of a stored row are a small block of their own: the row stays where it is.
//
// # Reading
//
// A Snapshot is one committed state for as long as it is held. All readers of a state share one
// read transaction and one set of pointer tables, which the first reader builds, so taking a
// snapshot costs about as much as locking a mutex. Readers and writers never wait for each
// other. While a snapshot is held, the pages of its state are not reused: release it soon.
//
// Results never alias the file: keys, vectors, labels and payloads are copies.
//
// # Maintenance
//
// An index covers the rows that existed when it was built. Every query also searches the rows
// written since, ranked by sketch or compared one by one, and excludes deleted rows.
// Maintenance extends the indexes to the new rows, in the background within the bounds of
// Options.Maintenance or by calls of DB.Maintain, in steps of one transaction each, at a cost
// proportional to the change if the kind of index allows it. In the background it also builds an
// index where a collection of many rows has none, and compacts the file. DB.Stats reports how far the
// indexes are behind; Peek reports it to other processes while this one writes.
//
// # Damage
//
// Every block carries a checksum over its key, header and payload, which is verified the first
// time a process reads the block; so does every entry that maps a key or a label. bbolt's pages
// have no checksum: the pages of a bucket are checked by bounds-checked reads before bbolt
// reads them, and all pages before the first write, so that no entry can be hidden. Damage is
// reported as ErrCorrupt with its location (CorruptError), never as a wrong answer or a crash:
// memory faults, such as those of a file that was truncated while it is mapped, become errors.
// DB.Check verifies everything, DB.Repair rebuilds damaged indexes, and Salvage recovers the
// rows of a damaged file, even if its catalog is lost.
//
// # Failure
//
// After a commit has failed, the handle refuses writes (ErrUnknownState) until the file is
// opened again: the commit happened completely or not at all, and only reopening shows which. A
// full disk is also reported as ErrNoSpace.
package db
