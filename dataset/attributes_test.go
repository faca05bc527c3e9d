package dataset

import (
	"errors"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawAttributes gives a record attributes and an expiry that the format can hold.
func drawAttributes(t *rapid.T, format string, rec *Record) {
	text := rapid.Map(rapid.String(), func(s string) string {
		if format == FormatJSONL {
			return s
		}
		return strings.ReplaceAll(s, "\r\n", "") + "."
	})
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		first, last := int64(-62167219200), int64(253402300799) // the years 0 to 9999
		if format == FormatParquet {
			first, last = -9223372036, 9223372035
		}
		seconds := rapid.Int64Range(first, last).Draw(t, "seconds")
		return time.Unix(seconds, rapid.Int64Range(0, 999999999).Draw(t, "nanoseconds")).UTC()
	})
	value := rapid.OneOf(
		text.AsAny(), rapid.Bool().AsAny(), instant.AsAny(), rapid.Int64().AsAny(),
		rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 1<<53 + 1, 0}).AsAny(), rapid.Float64().AsAny(),
		rapid.SampledFrom([]float64{0, 3, -1e15, 1e21, math.Inf(1), math.Inf(-1), 5e-324, math.MaxFloat64}).AsAny(),
	)
	name := rapid.OneOf(rapid.SampledFrom([]string{"a", "é:int", "x,\ty", "key", "expires"}), text)
	if rapid.Bool().Draw(t, "has") {
		rec.Attributes = rapid.MapOfN(name, value, 0, 4).Draw(t, "attributes")
	}
	if rapid.IntRange(0, 2).Draw(t, "expires") == 0 {
		rec.ExpiresAt = instant.Draw(t, "expiry")
	}
}

// columnsOf returns the columns that a csv file of the records needs.
func columnsOf(all []Record) (columns []Attribute, expires bool) {
	for _, rec := range all {
		for _, name := range slices.Sorted(maps.Keys(rec.Attributes)) {
			typ, _ := TypeOf(rec.Attributes[name])
			if a := (Attribute{name, typ}); !slices.Contains(columns, a) {
				columns = append(columns, a)
			}
		}
		expires = expires || !rec.ExpiresAt.IsZero()
	}
	return columns, expires
}

// A cell without a type is what it looks like, and nothing is lost.
func TestInferredValues(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	for cell, want := range map[string]any{
		"": nil, "  ": nil, "7": int64(7), " -7 ": int64(-7), "0": int64(0), "007": "007", "+49": "+49",
		"1-2": "1-2",
		"3.0": 3.0, ".5": 0.5, "5.": 5.0, "-0.5e3": -500.0, "0x10": "0x10", "1_000": "1_000",
		"nan": "nan", "inf": "inf",
		"-": "-", "e": "e", "1e": "1e", "true": true, "False": false, "yes": "yes", " x ": " x ",
		"9223372036854775807": int64(math.MaxInt64), "-9223372036854775808": int64(math.MinInt64),
		"2026-01-02": time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), "2026-01-02T03:04:05.0000006Z": at,
		"2026-01-02T04:04:05.0000006+01:00": at, "2026-13-01": "2026-13-01",
		"9999-12-31T23:59:59-01:00": "9999-12-31T23:59:59-01:00",
	} {
		got, err := AnyType.Parse(cell)
		if err != nil || got != want {
			t.Errorf("%q: %#v, %v, want %#v", cell, got, err, want)
		}
	}
	for _, cell := range []string{"9223372036854775808", "1e400"} {
		if v, err := AnyType.Parse(cell); err == nil || !strings.Contains(err.Error(), "declare the attribute") {
			t.Errorf("%q: %#v, %v", cell, v, err)
		}
	}
}

func TestParseAttribute(t *testing.T) {
	for text, want := range map[string]Attribute{
		"a": {"a", AnyType}, "a:int": {"a", IntType}, "a:int:string": {"a:int", StringType}, "é b:time": {"é b", TimeType},
	} {
		if got, err := ParseAttribute(text); err != nil || got != want || got.String() != text {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":int", "a:integer", "a:"} {
		if got, err := ParseAttribute(text); !errors.Is(err, ErrOption) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// What a file cannot hold is refused, not lost.
func TestRefusedAttributes(t *testing.T) {
	late := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	bad := map[string][]map[string]any{
		FormatCSV:   {{"none": 1}, {"n": "7"}, {"n": int64(1), "more": true}, {"s": ""}, {"s": "\r\n"}, {"f": math.NaN()}},
		FormatJSONL: {{"n": 7}, {"f": math.NaN()}, {"s": "\xff"}, {"\xff": "s"}, {"t": late}},
	}
	columns := []Attribute{{"n", IntType}, {"s", StringType}, {"f", FloatType}}
	for format, list := range bad {
		w, err := Create(filepath.Join(t.TempDir(), "x"), Schema{Format: format, Dim: 1, Attributes: columns})
		must(t, err)
		for _, attributes := range list {
			rec := Record{Key: []byte("k"), Vector: []float32{1}, Attributes: attributes}
			if err := w.Write(&rec); !errors.Is(err, ErrRecord) {
				t.Errorf("%s: %v: %v", format, attributes, err)
			}
		}
		rec := Record{Key: []byte("k"), Vector: []float32{1}, ExpiresAt: late}
		if err := w.Write(&rec); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %v", format, err)
		}
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
	}
	for _, columns := range [][]Attribute{
		{{"", IntType}}, {{"a", AnyType}}, {{"a", IntType}, {"a", IntType}}, {{"a\r\n", IntType}},
	} {
		_, err := Create(filepath.Join(t.TempDir(), "x.csv"), Schema{Dim: 1, Attributes: columns})
		if !errors.Is(err, ErrOption) {
			t.Errorf("%v: %v", columns, err)
		}
	}
}
