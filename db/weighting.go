package db

// Weighting selects how a label model weighs values before it scales them to unit length. Empty
// lets the tuner of LCIF choose; otherwise it means WeightNone.
type Weighting string

// The weightings.
const (
	// WeightNone uses values as they are.
	WeightNone Weighting = "none"
	// WeightTFIDF treats values as counts of terms: (1 + ln tf)·ln(N/df) for counts of at least 1,
	// tf·ln(N/df) below, where df of the N rows have the feature. One that no row of the build has
	// weighs nothing.
	WeightTFIDF Weighting = "tfidf"
	// WeightStandard, for LCIF in dense collections, scales every column to mean 0 and standard
	// deviation 1. Neighbors are then found by the cosine of scaled rows, with a scan of all rows.
	WeightStandard Weighting = "standard"
)
