// Package postings answers the exact k nearest rows by cosine over sparse
// matrices with long queries.
//
// Rows and queries are sparse vectors without negative values. The score of a
// row is its dot product with the query as vector.DotSparse computes it, which
// is the cosine where both are unit-length. A hit is a row with a positive
// score; hits are ordered by falling score, then by rising row number.
//
// An Index has an inverted list for each feature: its rows as a roaring bitmap, a code for each value,
// and the highest value (Lists). A search goes through windows of 65,536 rows, the containers of the
// bitmaps, term at a time (TAAT) or document at a time with Weak-AND (DAAT), as the phases of
// INSTANCEKNNFAST do (Feremans 2020, Algorithm 8). INSTANCEKNNSEARCH, the paper's baseline, is in
// package paper.
//
// Both strategies estimate scores from above by the codes, keep all rows that may be among the k best,
// and compute their exact scores from the rows themselves. So both return the same rows and the same
// bits. Where each row holds one value, as binary rows of unit length do, there are no codes: TAAT
// counts common features, and exact scores follow from the counts. An Index holds the rows, or derives
// them from a collection's rows through a Source.
//
// An Index consists of flat arrays, which may be views of mapped memory. Call Validate after
// loading arrays from outside: searches rely on it.
package postings

//go:generate go run ./internal/asm -out kernels_amd64.s -stubs kernels_amd64.go -pkg postings
