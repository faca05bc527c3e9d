package attribute

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// class and compare are the order of values, written without keys.
func class(v any) byte {
	switch v.(type) {
	case bool:
		return 1
	case int64, float64:
		return 2
	case time.Time:
		return 3
	}
	return 4
}

func compare(a, b any) int {
	if c := cmp.Compare(class(a), class(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case bool:
		return compareNumbers(number(a), number(b.(bool)))
	case time.Time:
		return a.Compare(b.(time.Time))
	case string:
		return strings.Compare(a, b.(string))
	}
	return compareNumbers(a, b)
}

func number(b bool) any {
	if b {
		return int64(1)
	}
	return int64(0)
}

func compareNumbers(a, b any) int {
	exact := func(v any) *big.Float {
		if n, ok := v.(int64); ok {
			return new(big.Float).SetInt64(n)
		}
		return big.NewFloat(v.(float64))
	}
	return exact(a).Cmp(exact(b))
}

var (
	firstTime = time.Unix(0, math.MinInt64).UTC()
	lastTime  = time.Unix(0, math.MaxInt64).UTC()
	edges     = []any{
		false, true, int64(0), 0.0, int64(3), 3.0, int64(-1), -1.0, int64(math.MaxInt64), int64(math.MinInt64),
		int64(1) << 53, int64(1)<<53 + 1, float64(1 << 53), float64(1 << 63), -float64(1 << 63),
		float64(1 << 62), int64(1)<<62 + 511, int64(1)<<62 + 512, int64(1)<<62 + 513, int64(math.MaxInt64) - 511,
		int64(math.MaxInt64) - 512, int64(math.MaxInt64) - 1024, math.Inf(1), math.Inf(-1), math.MaxFloat64,
		math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, "", "\x00", "a", "a\x00", "ab", "b", "\U0010ffff",
		time.Unix(0, 0).UTC(), time.Unix(0, -1).UTC(), firstTime, lastTime,
	}
)

func values() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.SampledFrom(edges),
		rapid.Map(rapid.Int64(), func(v int64) any { return v }),
		rapid.Map(rapid.Int64(), func(v int64) any { return float64(v) }),
		rapid.Map(rapid.Float64(), func(v float64) any { return v + 0 }),
		rapid.Map(rapid.String(), func(v string) any { return v }),
		rapid.Map(rapid.Int64(), func(v int64) any { return time.Unix(0, v).UTC() }),
	)
}

// checkPair compares the order of keys and the ranges with compare.
func checkPair(t interface{ Fatalf(string, ...any) }, a, b any) {
	ka, kb := AppendKey(nil, a), AppendKey(nil, b)
	want := compare(a, b)
	if got := bytes.Compare(ka, kb); got != want {
		t.Fatalf("keys of %v (%T) and %v (%T) compare as %d, want %d", a, a, b, b, got, want)
	}
	same := class(a) == class(b)
	for name, c := range map[string]struct {
		r    Range
		want bool
	}{
		"Equal":   {Equal(b), want == 0},
		"Less":    {Less(b), same && want < 0},
		"AtMost":  {AtMost(b), same && want <= 0},
		"Greater": {Greater(b), same && want > 0},
		"AtLeast": {AtLeast(b), same && want >= 0},
		"All":     {All(), true},
	} {
		if got := c.r.Contains(ka); got != c.want {
			t.Fatalf("%s(%v %T) contains %v (%T): %t, want %t", name, b, b, a, a, got, c.want)
		}
	}
	if p, ok := b.(string); ok {
		s, isString := a.(string)
		if got, want := Prefix(p).Contains(ka), isString && strings.HasPrefix(s, p); got != want {
			t.Fatalf("Prefix(%q) contains %v (%T): %t, want %t", p, a, a, got, want)
		}
	}
}

func TestEdges(t *testing.T) {
	for _, a := range edges {
		if got, err := Normalize(a); err != nil || compare(got, a) != 0 {
			t.Errorf("Normalize(%v) = %v, %v", a, got, err)
		}
		for _, b := range edges {
			checkPair(t, a, b)
		}
	}
}

func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := values().Draw(t, "a"), values().Draw(t, "b")
		checkPair(t, a, b)
		if n, ok := a.(int64); ok { // neighbors of a number share its nearest float
			checkPair(t, a, n^rapid.Int64Range(0, 2048).Draw(t, "change"))
		}
	})
}

func TestNormalize(t *testing.T) {
	type mine string
	type count uint16
	zone := time.FixedZone("", 3600)
	for _, c := range []struct {
		in, want any
	}{
		{3, int64(3)}, {int8(-3), int64(-3)}, {uint(3), int64(3)}, {uint64(math.MaxInt64), int64(math.MaxInt64)},
		{count(7), int64(7)}, {float32(0.5), 0.5}, {mine("x"), "x"}, {true, true},
		{time.Date(2024, 5, 1, 1, 0, 0, 0, zone), time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)},
		{strings.Repeat("x", MaxString), strings.Repeat("x", MaxString)},
	} {
		if got, err := Normalize(c.in); err != nil || got != c.want {
			t.Errorf("Normalize(%v) = %v (%T), %v, want %v", c.in, got, got, err, c.want)
		}
	}
	if got, err := Normalize(math.Copysign(0, -1)); err != nil || math.Signbit(got.(float64)) {
		t.Errorf("Normalize(-0) = %v, %v", got, err)
	}
	if got, err := Normalize(time.Now()); err != nil || strings.Contains(got.(time.Time).String(), "m=") {
		t.Errorf("Normalize(now) = %v, %v", got, err)
	}
	for _, c := range []struct {
		in   any
		text string
	}{
		{nil, "no value"}, {[]byte("x"), "type []uint8"}, {3i, "type complex128"}, {uint64(1 << 63), "exceeds"},
		{math.NaN(), "NaN"}, {float32(math.NaN()), "NaN"}, {"\xff", "not UTF-8"},
		{strings.Repeat("x", MaxString+1), "513 bytes"}, {time.Time{}, "1678 to 2261"},
		{lastTime.Add(1), "1678 to 2261"}, {firstTime.Add(-1), "1678 to 2261"},
	} {
		if got, err := Normalize(c.in); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("Normalize(%v) = %v, %v, want an error with %q", c.in, got, err, c.text)
		}
	}
}
