package plot

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestScale(t *testing.T) {
	lines := []Growth{
		{Name: "first", Sizes: []Size{{Rows: 100_000, Micros: 30}, {Rows: 10_000, Micros: 20}}},
		{Name: "without points", Sizes: []Size{{Rows: 0, Micros: 1}, {Rows: 10, Micros: 0}}},
		{Name: "second", Style: "dashed", Sizes: []Size{{Rows: 10_000, Micros: 500}}},
	}
	var out bytes.Buffer
	if err := Scale(&out, lines, "growth"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<svg", "growth", "first", "second", "rows", ">20<", ">500<", ">10000<", ">100000<",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "without points") {
		t.Error("the legend names a line that is not drawn")
	}
	if err := Scale(&out, lines[1:2], ""); !errors.Is(err, ErrEmpty) {
		t.Errorf("nothing to draw: %v", err)
	}
	if err := Scale(failing{}, lines, ""); err == nil {
		t.Error("a failing writer is not told of")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }
