package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/anndb/anndb/internal/jsonscan"
)

var seeds = []string{
	`{"key":"a","vector":[1,-2.5e+3,0.1E-7,0],"labels":["x","\u00e9\\\/\b\f\n\r\t"],"none":null,"on":true,"off":false,"o":{"a":[{}]}}`,
	` { "a" : [ ] , "b":{ } } `, `[1 , "a\"b", {"x":1}]`, `{"a":1,}`, `{"a"}`, `{"a":}`, `[1,]`, `[1 2]`, `[01]`, `[1.]`, `[-]`, `[.5]`, `[1e]`,
	`["\x"]`, `["\u12g4"]`, `["\u12`, "[\"a\tb\"]", "[\"0123456\x1f\"]", `["0123456\\"]`, `[tru]`, `[nulll]`, `{"a":1}{}`, `[1]x`, `["0123456789"`,
	`{"a":1,"a":2}`, "[\"\xff\x7f\x80\"]", `["\ud800"]`, `{1:2}`, `[`, ``, ` `, `1`, `"a"`,
}

// FuzzScan compares what is accepted, and the parts, with what encoding/json makes of a text.
func FuzzScan(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(compare)
}

func compare(t *testing.T, text []byte) {
	t.Helper()
	var items []json.RawMessage
	err := jsonscan.Items(text, func(item json.RawMessage) error {
		items = append(items, item)
		return nil
	})
	var want []json.RawMessage
	wantErr := json.Unmarshal(text, &want)
	if want == nil {
		wantErr = errors.Join(wantErr, errors.New("null"))
	}
	same(t, text, err, wantErr, fmt.Sprintf("%q", items), fmt.Sprintf("%q", want))

	fields := map[string]json.RawMessage{}
	err = jsonscan.Fields(text, func(name string, value json.RawMessage) error {
		fields[name] = value
		return nil
	})
	var object map[string]json.RawMessage
	wantErr = json.Unmarshal(text, &object)
	if object == nil {
		wantErr = errors.Join(wantErr, errors.New("null"))
	}
	equal := !utf8.Valid(text) || maps.EqualFunc(fields, object, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
	same(t, text, err, wantErr, fmt.Sprint(equal), "true")
}

func same(t *testing.T, text []byte, err, wantErr error, got, want string) {
	t.Helper()
	if err != nil && !errors.Is(err, jsonscan.ErrSyntax) || (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: %v, encoding/json has %v", text, err, wantErr)
	}
	if err == nil && got != want {
		t.Fatalf("%q: %s, want %s", text, got, want)
	}
}

// TestChanged compares texts that differ in a byte or two from valid ones.
func TestChanged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const letters = "\"\\/{}[]:,0123456789-+.eEtrufalsn \t\n\x00\x1f\x7f\x80\xffu"
	for _, s := range seeds {
		for range 300 {
			text := []byte(s)
			for range 1 + r.IntN(2) {
				c := letters[r.IntN(len(letters))]
				switch at := r.IntN(len(text) + 1); {
				case at < len(text) && r.IntN(3) == 0:
					text = append(text[:at], text[at+1:]...)
				case at < len(text) && r.IntN(2) == 0:
					text[at] = c
				default:
					text = append(text[:at], append([]byte{c}, text[at:]...)...)
				}
			}
			compare(t, text)
		}
	}
}

// TestDepth compares texts that are nested as deep as encoding/json reads them, and deeper.
func TestDepth(t *testing.T) {
	for _, n := range []int{9999, 10000, 10001, 100000} {
		compare(t, []byte(strings.Repeat("[", n)+strings.Repeat("]", n)))
		compare(t, []byte(strings.Repeat(`{"a":`, n)+"1"+strings.Repeat("}", n)))
	}
}

// TestStrings has each byte at each place of a text.
func TestStrings(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			text := []byte(`["abcdefghijklmnopqrst"]`)
			text[at+2] = byte(c)
			compare(t, text)
		}
	}
}

// TestFieldsOf refuses names that are given twice, and too many.
func TestFieldsOf(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"\u0061":2}`: `field "a" is given twice`, `{"a":1,"b":2,"c":3}`: "more than 2 fields",
	} {
		if err := jsonscan.FieldsOf(map[string]json.RawMessage{}, []byte(text), 2); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
