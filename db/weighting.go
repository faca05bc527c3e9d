package db

// Weighting selects how a label model weighs the values of rows and queries before it scales
// them to unit length. Empty leaves the choice to the tuner of an LCIF index: it tries every
// weighting that the collection allows and takes the best by cross-validation. Without tuning,
// and for trees, empty means WeightNone.
type Weighting string

// The weightings.
const (
	// WeightNone uses values as they are.
	WeightNone Weighting = "none"
	// WeightTFIDF treats values as counts of terms: (1 + ln tf)·ln(N/df) for counts of at least
	// 1, tf·ln(N/df) below, where N is the number of rows and df the number of rows that have
	// the feature. A feature that occurs in no row of the build has weight zero: its document
	// frequency is zero, and with a frequency of one an unknown word would make up most of a
	// query's length.
	WeightTFIDF Weighting = "tfidf"
	// WeightStandard, for LCIF in dense collections, scales every column to mean 0 and standard
	// deviation 1 over the rows. Neighbors are then found by the cosine of scaled rows, with a
	// scan of all rows.
	WeightStandard Weighting = "standard"
)
