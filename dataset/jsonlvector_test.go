package dataset

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// float32s draws numbers of all bits, and of few digits.
var float32s = rapid.OneOf(
	rapid.Map(rapid.Uint32(), math.Float32frombits),
	rapid.Map(rapid.IntRange(-2000000, 2000000), func(n int) float32 { return float32(n) }),
	rapid.Map(rapid.IntRange(-2000000, 2000000), func(n int) float32 { return float32(n) / 1000 }),
)

// TestVectorForms writes vectors in both forms as the packages of the standard library do, and reads them.
func TestVectorForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(float32s.Filter(finite), 1, 40).Draw(t, "vector")
		raw, array := []byte{}, []byte{'['}
		for i, v := range x {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
			if i > 0 {
				array = append(array, ',')
			}
			array = strconv.AppendFloat(array, float64(v), 'g', -1, 32)
		}
		array = append(array, ']')
		text := `{"base64":"` + base64.StdEncoding.EncodeToString(raw) + `"}`
		if got := string(AppendBase64(nil, x)); got != text {
			t.Fatalf("%v: %s, want %s", x, got, text)
		}
		if got := appendNumbers(nil, x); string(got) != string(array) {
			t.Fatalf("%s, want %s", got, array)
		}
		for _, form := range []string{text, string(array)} {
			got, err := AppendVector(nil, []byte(form), len(x))
			if err != nil || !slices.EqualFunc(got, x, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
				t.Fatalf("%s: %v, %v, want %v", form, got, err, x)
			}
			if _, err := AppendVector(nil, []byte(form), len(x)-1); err == nil {
				t.Fatalf("%s: more values than there may be are accepted", form)
			}
		}
	})
}

// TestBase64Strict compares what is read from changed texts with the standard library's decoder.
func TestBase64Strict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		digit := rapid.SampledFrom([]byte("ABCDxyz0189+/ABCDxyz0189+/ABCDxyz0189+/=-_ \n!\xc3\\"))
		text := rapid.SliceOfN(digit, 0, 80).Draw(t, "text")
		if rapid.Bool().Draw(t, "whole") {
			text = text[:len(text)/16*16]
		}
		quoted, _ := json.Marshal(string(text))
		var plain string // Marshal replaces bytes that are not UTF-8
		if err := json.Unmarshal(quoted, &plain); err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(plain)
		var want []float32
		for ; len(raw) >= 4; raw = raw[4:] {
			want = append(want, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
		}
		good := err == nil && len(raw) == 0 && len(want) > 0 && !slices.ContainsFunc(want, func(v float32) bool { return !finite(v) })
		got, err := AppendVector(nil, []byte(`{"base64":`+string(quoted)+`}`), 100)
		if (err == nil) != good || good && !slices.Equal(got, want) {
			t.Fatalf("%s: %v, %v, want %v", quoted, got, err, want)
		}
	})
}

// TestParseValue compares numbers of few digits with the standard library's.
func TestParseValue(t *testing.T) {
	number := rapid.StringMatching(`-?[0-9]{0,8}(\.[0-9]{0,12})?(e-?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		text := number.Draw(t, "text")
		want, wantErr := strconv.ParseFloat(text, 32)
		got, err := parseValue([]byte(text))
		if (err == nil) != (wantErr == nil) || err == nil && math.Float32bits(got) != math.Float32bits(float32(want)) {
			t.Fatalf("%q: %v, %v, want %v, %v", text, got, err, float32(want), wantErr)
		}
	})
}

// BenchmarkVector reads and writes a vector in both forms.
func BenchmarkVector(b *testing.B) {
	x := make([]float32, 784)
	for i := range x {
		x[i] = float32(i * 37 % 256)
	}
	var dst []byte
	for name, write := range map[string]func([]byte, []float32) []byte{"base64": AppendBase64, "array": appendNumbers} {
		text := write(nil, x)
		b.Run("write/"+name, func(b *testing.B) {
			for b.Loop() {
				dst = write(dst[:0], x)
			}
		})
		line := append(append([]byte(`{"key":"k","vector":`), text...), '}')
		b.Run("read/"+name, func(b *testing.B) {
			var rec Record
			j := newJSONL(mustNormal(b, Options{Format: FormatJSONL}))
			for b.Loop() {
				rec.Vector = rec.Vector[:0]
				if ok, err := j.decode(&rec, line); !ok || err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func mustNormal(b *testing.B, o Options) Options {
	o, err := o.normal()
	if err != nil {
		b.Fatal(err)
	}
	return o
}
