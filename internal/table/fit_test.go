package table

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestFit(t *testing.T) {
	tab := New("key", "n", "labels")
	tab.Add("a", 1, []string{"über", "short"})
	tab.Add("a key of some length", 22, []string{strings.Repeat("long ", 10)})
	for _, c := range []struct {
		width int
		want  string
	}{
		{40, "" +
			"key                 n  labels\n" +
			"a                   1  über|short\n" +
			"a key of some le…  22  long long long l…\n"},
		{26, "" +
			"key          n  labels\n" +
			"a            1  über|short\n" +
			"a key of …  22  long long…\n"},
		{12, "" +
			"key     a\nn       1\nlabels  über|short\n\n" +
			"key     a key of some length\nn       22\nlabels  " + strings.Repeat("long ", 10) + "\n"},
	} {
		var b strings.Builder
		if err := (Output{W: &b, Format: Text, Width: c.width}).Print(tab); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, b.String()); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", c.width, diff)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("über|short", 3)
	f.Fuzz(func(t *testing.T, cell string, width int) {
		if width < 1 || !utf8.ValidString(cell) {
			return
		}
		got := Cut(cell, width)
		if n := utf8.RuneCountInString(got); n > width || n < width && got != cell {
			t.Errorf("%q cut to %d: %q", cell, width, got)
		}
	})
}

func TestMachines(t *testing.T) {
	tab := New("key", "labels")
	tab.Add("a", []string{"p,q", "x|y"})
	tab.Add("b", []string{"p", "q"})
	var b strings.Builder
	o := Output{W: &b, Format: JSONL}
	if err := o.Report(tab.As("rows", ""), New("none").As("none", "")); err != nil {
		t.Fatal(err)
	}
	o.Format = CSV
	if err := o.Print(tab); err != nil {
		t.Fatal(err)
	}
	want := `{"section": "rows", "key": "a", "labels": ["p,q","x|y"]}
{"section": "rows", "key": "b", "labels": ["p","q"]}
key,labels
a,"[""p,q"",""x|y""]"
b,p|q
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
