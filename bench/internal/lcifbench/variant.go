package lcifbench

import "fmt"

// Variant selects the part of LCIF that is tuned.
type Variant uint8

const (
	// Combined tunes the weight λ, too.
	Combined Variant = iota
	// InstanceOnly is instance-based kNN, λ = 1.
	InstanceOnly
	// FeatureOnly is feature-based kNN, λ = 0.
	FeatureOnly
)

// String returns the variant's name.
func (v Variant) String() string {
	switch v {
	case Combined:
		return "lcif"
	case InstanceOnly:
		return "instance"
	case FeatureOnly:
		return "feature"
	}
	return fmt.Sprintf("variant(%d)", uint8(v))
}

// lambdas returns the values of λ of the variant, of those for the combination.
func (v Variant) lambdas(all []float64) []float64 {
	switch v {
	case InstanceOnly:
		return []float64{1}
	case FeatureOnly:
		return []float64{0}
	}
	return all
}
