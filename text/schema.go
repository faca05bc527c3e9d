package text

// Schema describes the texts of a collection of package db. An analyzer turns each into terms, which are
// the features of its row, and searches rank rows by BM25.
type Schema struct {
	// Analyzer names one of this package, or one that the program has registered (Register); Words when
	// empty.
	Analyzer string `json:"analyzer,omitempty"`
	// K1 and B are those of BM25, 1.2 and 0.75 when zero: how fast further occurrences of a term count
	// less, and how much the length of a text counts (almost not at all with 1e-6).
	K1 float64 `json:"k1,omitempty"`
	B  float64 `json:"b,omitempty"`
	// Pairs, if above zero, makes terms of each two words that follow each other, too. A search counts those
	// that at least so many rows have now. The length of a text is the number of its words and pairs.
	Pairs int `json:"pairs,omitempty"`
}
