// Package postings answers the exact k nearest rows by cosine over sparse
// matrices with long queries.
//
// Rows and queries are sparse vectors without negative values. The score of a
// row is its dot product with the query as vector.DotSparse computes it, which
// is the cosine where both are unit-length. A hit is a row with a positive
// score; hits are ordered by falling score, then by rising row number.
//
// An Index holds one or both of
//
//   - a Partition: the paper's structure (Feremans 2020, Algorithm 7), with its
//     search INSTANCEKNNFAST (Partitioned). The rows of its lists are roaring
//     bitmaps, their values are adjacent in rank order. INSTANCEKNNSEARCH, the
//     paper's baseline, is in package paper;
//   - a compact structure of this project: Weighted for matrices in general,
//     Uniform for matrices whose rows each hold one value, such as normalised
//     binary data.
//
// Every strategy estimates scores in its own way, keeps all rows that may be among the k best
// within the error of its estimate, and computes their exact scores from the rows themselves.
// So all strategies return the same rows and the same bits. An Index holds the rows, or derives
// them from a collection's rows through a Source.
//
// An Index consists of flat arrays, which may be views of mapped memory. Call Validate after
// loading arrays from outside: searches rely on it.
package postings

//go:generate go run ./internal/asm -out kernels_amd64.s -stubs kernels_amd64.go -pkg postings
