package table

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sample() *Table {
	t := New("method", "recall:3", "n", "note")
	t.Add("natural", 0.95123, 7, "für|alle")
	t.Add("k-d", float32(0.1), 1200)
	return t
}

func write(t *testing.T, tab *Table, f Format) string {
	t.Helper()
	var b strings.Builder
	if err := tab.Write(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	want := "" +
		"method   recall     n  note\n" +
		"natural   0.951     7  für|alle\n" +
		"k-d       0.100  1200\n"
	if diff := cmp.Diff(want, write(t, sample(), Text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMarkdown(t *testing.T) {
	want := "" +
		"| method  | recall |    n | note      |\n" +
		"|---------|-------:|-----:|-----------|\n" +
		"| natural |  0.951 |    7 | für\\|alle |\n" +
		"| k-d     |  0.100 | 1200 |           |\n"
	if diff := cmp.Diff(want, write(t, sample(), Markdown)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCSVKeepsAllDigits(t *testing.T) {
	got, err := csv.NewReader(strings.NewReader(write(t, sample(), CSV))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"method", "recall", "n", "note"}, {"natural", "0.95123", "7", "für|alle"}, {"k-d", "0.1", "1200", ""}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJSON(t *testing.T) {
	tab := sample()
	tab.Add(nil, math.NaN(), 2*time.Second, []byte("key"))
	var got []map[string]any
	text := write(t, tab, JSON)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	want := []map[string]any{
		{"method": "natural", "recall": 0.95123, "n": 7.0, "note": "für|alle"},
		{"method": "k-d", "recall": 0.1, "n": 1200.0, "note": nil},
		{"method": nil, "recall": nil, "n": 2.0, "note": "key"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := write(t, New("a"), JSON); got != "[]\n" {
		t.Errorf("empty table: %q", got)
	}
}

func TestUnknownFormat(t *testing.T) {
	if err := sample().Write(&strings.Builder{}, "xml"); !errors.Is(err, ErrFormat) {
		t.Errorf("got %v, want ErrFormat", err)
	}
}

// TestStream: what is written row by row is what a table in memory gives.
func TestStream(t *testing.T) {
	for _, f := range []Format{Text, Markdown, CSV, JSON} {
		for _, n := range []int{0, 1, 200} {
			tab := New("a:2", "b|", "c")
			var b strings.Builder
			s, err := Output{W: &b, Format: f}.Stream("a:2", "b|", "c")
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				row := []any{float64(i * i), strings.Repeat("x|", i%7), nil}
				tab.Add(row...)
				s.Add(row...)
			}
			if s.n != n || s.Err() != nil {
				t.Errorf("%d rows: %d, %v", n, s.n, s.Err())
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(write(t, tab, f), b.String()); diff != "" {
				t.Errorf("%s of %d rows (-want +got):\n%s", f, n, diff)
			}
		}
	}
}

// TestSizes checks that sizes are texts for people and numbers of bytes for machines.
func TestSizes(t *testing.T) {
	tab := New("size")
	tab.Add(Size(1536))
	for f, want := range map[Format]string{
		Text: "1.5 KiB", Vertical: "1.5 KiB", Markdown: "1.5 KiB", CSV: "size\n1536\n",
		JSON: `{"size": 1536}`, JSONL: `{"size": 1536}`,
	} {
		if got := write(t, tab, f); !strings.Contains(got, want) {
			t.Errorf("%s: %q lacks %q", f, got, want)
		}
	}
}

// TestOptionalColumn checks that a column without values is shown to machines only.
func TestOptionalColumn(t *testing.T) {
	tab := New("key", "payload:?", "n")
	tab.Add("a", "", 1)
	for f, want := range map[Format]string{
		Text: "key  n\na    1\n", Markdown: "| key | n |\n|-----|--:|\n| a   | 1 |\n",
		CSV: "key,payload,n\na,,1\n", JSONL: `{"key": "a", "payload": "", "n": 1}` + "\n",
	} {
		if got := write(t, tab, f); got != want {
			t.Errorf("%s: %q, want %q", f, got, want)
		}
	}
	tab.Add("b", "x", 2)
	if got, want := write(t, tab, Text), "key  payload  n\na             1\nb    x        2\n"; got != want {
		t.Errorf("with a value: %q, want %q", got, want)
	}
}

func TestTime(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1500: "1.5 µs", 161625100: "161.6 ms", 12_340_000_000: "12.3 s", 0: "0.0 µs",
	} {
		if got := Time(d); got != want {
			t.Errorf("Time(%d) = %q, want %q", d, got, want)
		}
	}
}
