// Package hostile makes database files that nothing of ours wrote, with
// checksums that are right, and asks of them whatever there is to ask.
//
// A mutant is a sound file of which a few things were changed: a number, a list
// or a text in the catalog or a manifest; several fields of one object of it;
// elements or the length of an array; the header of a block; the key of a block;
// an entry of a dictionary. Nothing may die of it, wait long for it, or need much memory for it, and no array may be
// indexed out of its range: an error that wraps a runtime error counts, for the
// assembly would have read or written there. The hits of searches are compared with
// the rows.
package hostile
