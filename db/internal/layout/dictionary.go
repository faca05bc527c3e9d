package layout

import "encoding/binary"

// BucketFeatures is the dictionary of named features. It exists once a collection needs it:
// collection ‖ 'n' ‖ name → an entry with the number, and collection ‖ 'i' ‖ number → name; all
// integers are big-endian.
var BucketFeatures = []byte("features")

// The parts of the dictionary.
const (
	FeatureByName = 'n'
	FeatureByID   = 'i'
)

// FeatureKey returns a key of the dictionary.
func FeatureKey(coll uint64, kind byte, rest []byte) []byte {
	k := make([]byte, 0, 9+len(rest))
	k = binary.BigEndian.AppendUint64(k, coll)
	k = append(k, kind)
	return append(k, rest...)
}
