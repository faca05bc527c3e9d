package dataset

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/anndb/anndb/vector"
)

// byFeature sorts a vector whose file did not.
type byFeature vector.Sparse

func (v *byFeature) Len() int           { return len(v.Index) }
func (v *byFeature) Less(i, j int) bool { return v.Index[i] < v.Index[j] }
func (v *byFeature) Swap(i, j int) {
	v.Index[i], v.Index[j] = v.Index[j], v.Index[i]
	v.Value[i], v.Value[j] = v.Value[j], v.Value[i]
}

var errRepeatedFeature = errors.New("is given twice")

// tidy brings features into order and drops zeros, which say nothing. Which of
// two values of a feature holds cannot be told, so that is an error; base is
// added to the number it names. What is kept never moves onto the entry before
// the one looked at, so entries i-1 and i can be compared.
func tidy(v *vector.Sparse, base uint64) error {
	if !slices.IsSorted(v.Index) {
		sort.Sort((*byFeature)(v))
	}
	n := 0
	for i, f := range v.Index {
		if i > 0 && f == v.Index[i-1] {
			return fmt.Errorf("feature %d %w", uint64(f)+base, errRepeatedFeature)
		}
		if v.Value[i] != 0 {
			v.Index[n], v.Value[n] = f, v.Value[i]
			n++
		}
	}
	v.Index, v.Value = v.Index[:n], v.Value[:n]
	return nil
}

// maxInterned bounds the strings kept for reuse: many labels are the same few,
// but a file may as well have a new one in every record.
const maxInterned = 1 << 20

// interned gives equal bytes the same string.
type interned map[string]string

func (t interned) get(b []byte) string {
	if s, ok := t[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(t) < maxInterned {
		t[s] = s
	}
	return s
}

// exact is the largest whole number up to which float32 has all.
const exact = 1 << 24

// parseValue is parseFinite with a short way for numbers of few digits.
func parseValue(text []byte) (float32, error) {
	// A whole number and a power of ten that float32 has exactly: their quotient is rounded once.
	negative := len(text) > 0 && text[0] == '-'
	v, point, digits := uint32(0), -1, 0
	for i, c := range text {
		switch {
		case c-'0' <= 9 && v < exact/10:
			v = v*10 + uint32(c-'0')
			digits++
		case c == '.' && point < 0:
			point = i
		case i > 0 || c != '-':
			return parseFinite(string(text))
		}
	}
	decimals := len(text) - 1 - point
	if point < 0 {
		decimals = 0
	}
	if digits == 0 || decimals >= len(powersOf10) {
		return parseFinite(string(text))
	}
	x := float32(v) / powersOf10[decimals]
	if negative {
		x = -x
	}
	return x, nil
}

// powersOf10 are those that float32 has exactly.
var powersOf10 = [...]float32{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10}

// parseNumber reads decimal digits and nothing else.
func parseNumber(text []byte) (uint64, bool) {
	if len(text) == 0 || len(text) > 18 {
		return 0, false
	}
	v := uint64(0)
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	return v, true
}

// maxLabels bounds label numbers the way DefaultMaxFeatures bounds features.
const maxLabels = math.MaxUint32
