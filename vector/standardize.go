package vector

// Standardize sets out[i] = (x[i] - mean[i])·factor[i], for all i of x. The other slices must not be
// shorter; out may be x. The difference is rounded before it is multiplied, so all processors give the same
// bits. O(len(x)).
func Standardize(out, x, mean, factor []float32) {
	n := len(x)
	standardize(out[:n], x, mean[:n], factor[:n])
}

func standardizeGo(out, x, mean, factor []float32) {
	for i, v := range x {
		out[i] = (v - mean[i]) * factor[i]
	}
}
