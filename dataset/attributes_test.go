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

// Columns become attributes by a type in the header, or by the options.
func TestAttributeColumns(t *testing.T) {
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	named := func(a ...Attribute) Options { return Options{Attributes: a} }
	numbers := named(Attribute{"n", AnyType}, Attribute{"3", FloatType})
	numbers.Header = HeaderPresent
	type values = map[string]any
	tests := map[string]struct {
		text string
		o    Options
		want values
	}{
		"by header":       {"v,n:int,a:b:string\n1,7,x\n", Options{}, values{"n": int64(7), "a:b": "x"}},
		"by options":      {"1,n,price\n1,7,3\n", numbers, values{"n": int64(7), "price": 3.0}},
		"detected header": {"n,when\n1,2026-01-02\n", named(Attribute{"when", AnyType}), values{"when": day}},
		"type overridden": {"v,n:int\n1,7\n", named(Attribute{"n", StringType}), values{"n": "7"}},
		"two types":       {"v,n:int,n:string\n1,,7\n", Options{}, values{"n": "7"}},
		"ignored":         {"v,n:int,expires\n1,x,x\n", Options{IgnoreColumns: []string{"n", "expires"}}, nil},
		"no header":       {"1,doc:time\n", Options{PayloadColumn: "2"}, nil},
	}
	for name, tt := range tests {
		got := mustLoad(t, "x.csv", []byte(tt.text), tt.o)
		if len(got) != 1 || !slices.Equal(got[0].Vector, []float32{1}) || !maps.Equal(got[0].Attributes, tt.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for text, o := range map[string]Options{"v,expires\n1,2026-01-02\n": {}, "v,x\n1,2026-01-02\n": {ExpiryColumn: "x"}} {
		if got := mustLoad(t, "x.csv", []byte(text), o); len(got) != 1 || !got[0].ExpiresAt.Equal(day) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// Fields of jsonl objects become attributes.
func TestAttributeFields(t *testing.T) {
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	text := `{"vector":[1],"meta":{"a":1,"none":null},"until":"2026-01-02",` +
		`"price":3,"seen":"2026-01-02","tag":"2026-01-02"}`
	o := Options{
		AttributesField: "meta", ExpiryColumn: "until",
		Attributes: []Attribute{{"price", FloatType}, {"seen", TimeType}, {"tag", AnyType}, {"absent", IntType}},
	}
	want := Record{Key: []byte("0"), Vector: []float32{1}, ExpiresAt: day, Attributes: map[string]any{
		"a": int64(1), "price": 3.0, "seen": day, "tag": "2026-01-02",
	}}
	if err := same([]Record{want}, mustLoad(t, "x.jsonl", []byte(text), o)); err != nil {
		t.Error(err)
	}
	ignored := `{"vector":[1],"attributes":7,"expires":7}`
	mustLoad(t, "x.jsonl", []byte(ignored), Options{IgnoreColumns: []string{"attributes", "expires"}})

	// Lists and objects, which no attribute can hold, are their JSON.
	nested := `{"vector":[1],"attributes":{"a":["x", "y z"],"b":[],"c":{ "x": [1, {"$time": 1}], "y":2 },"d":{},` +
		`"e":[[1],null],"f":{"$time":"2026-01-02","x":1},"none":null,"left out":[1]},"l":[1, 2]}`
	want = Record{Key: []byte("0"), Vector: []float32{1}, Attributes: map[string]any{
		"a": `["x","y z"]`, "b": "[]", "c": `{"x":[1,{"$time":1}],"y":2}`, "d": "{}", "e": "[[1],null]",
		"f": `{"$time":"2026-01-02","x":1}`, "l": "[1,2]",
	}}
	o = Options{Attributes: []Attribute{{"l", AnyType}}, IgnoreColumns: []string{"left out"}}
	if err := same([]Record{want}, mustLoad(t, "x.jsonl", []byte(nested), o)); err != nil {
		t.Error(err)
	}
}

// A wrong attribute is an error that names it.
func TestBadAttributes(t *testing.T) {
	for text, want := range map[string]string{
		`{"vector":[1],"attributes":[1]}`:                       `field "attributes": not an object`,
		`{"vector":[1],"attributes":{"a":{"$time":17}}}`:        `attribute "a": $time: not a string`,
		`{"vector":[1],"attributes":{"a":{"$time":"noon"}}}`:    `attribute "a": "noon" is neither a date`,
		`{"vector":[1],"attributes":{"a":{"$float":"NaN"}}}`:    `attribute "a": "NaN" is not a number`,
		`{"vector":[1],"attributes":{"a":9223372036854775808}}`: `attribute "a": "9223372036854775808": value out of range of int64`,
		`{"vector":[1],"attributes":{"a":1e400}}`:               `attribute "a": "1e400": value out of range of float64`,
		`{"vector":[1],"expires":17}`:                           `field "expires": 17 has the type int, want time`,
		`{"vector":[1],"n":"x"}`:                                `attribute "n": "x" has the type string, want int`,
		`{"vector":[1],"n":[1]}`:                                `attribute "n": [1] has the type string, want int`,
		`{"vector":[1],"n":1.0}`:                                `attribute "n": 1.0 has the type float, want int`,
		`{"vector":[1],"n":1,"attributes":{"n":1}}`:             `attribute "n": the record has two values of it`,
		"v,n:int\n1,x\n":                                        `column 2 ("n:int"): "x" is not an integer`,
		"v,x:float\n1,NaN\n":                                    `column 2 ("x:float"): "NaN" is not a number`,
		"v,x:bool\n1,0\n":                                       `column 2 ("x:bool"): "0" is neither true nor false`,
		"v,x:time\n1,9999-12-31T23:59:59-01:00\n":               `column 2 ("x:time"): a time of the year 10000`,
		"v,n:int,n:string\n1,2,3\n":                             `column 3 ("n:string"): the record has two values of it`,
		"v,expires\n1,soon\n":                                   `column 2 ("expires"): "soon" is neither a date`,
	} {
		o, name := Options{}, "x.csv"
		if text[0] == '{' {
			o.Attributes, name = []Attribute{{"n", IntType}}, "x.jsonl"
		}
		_, err := load(t, name, []byte(text), o)
		if wantFormatError(t, err); !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want\n%s", text, err, want)
		}
	}
	_, err := load(t, "x.csv", []byte("1,2\n"), Options{Attributes: []Attribute{{"2", AnyType}}})
	if wantFormatError(t, err); !strings.Contains(err.Error(), "the file needs a header") {
		t.Error(err)
	}
	for _, o := range []Options{{ExpiryColumn: "x"}, {Attributes: []Attribute{{"x", IntType}}}} {
		if _, err := load(t, "x.libsvm", []byte("1 1:1\n"), o); !errors.Is(err, ErrOption) {
			t.Errorf("attributes of libsvm: %v", err)
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
