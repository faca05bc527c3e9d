package db

import "encoding/binary"

// bucketFeatures is the dictionary of named features. It exists once a collection needs it:
// collection ‖ 'n' ‖ name → an entry with the number, and collection ‖ 'i' ‖ number → name; all
// integers are big-endian.
var bucketFeatures = []byte("features")

const (
	featureByName = 'n'
	featureByID   = 'i'
)

// featureKey returns a key of the dictionary.
func featureKey(coll uint64, kind byte, rest []byte) []byte {
	k := make([]byte, 0, 9+len(rest))
	k = binary.BigEndian.AppendUint64(k, coll)
	k = append(k, kind)
	return append(k, rest...)
}
