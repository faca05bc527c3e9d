package budget

import (
	"io"
	"strings"
	"testing"
)

// namedBy are names from a list.
func namedBy(list ...string) func(uint32) string {
	return func(i uint32) string {
		if int(i) < len(list) {
			return list[i]
		}
		return ""
	}
}

func figure2Picture(t *testing.T, o PictureOptions) *Picture {
	t.Helper()
	x, y := figure2(t)
	m, err := Train(t.Context(), AT, Job{X: x, Sets: y, Params: Params{BAC: BACParams{Budget: 4, C: 10}}})
	must(t, err)
	o.Names = Names{Feature: namedBy("fa", `f"b"`, "f\nc", "f<e>"), Label: namedBy("a", "b", "c", "e")}
	return m.Picture(o)
}

func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	must(t, write(&b))
	return b.String()
}

func wants(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in\n%s", w, text)
		}
	}
}

func TestPictures(t *testing.T) {
	p := figure2Picture(t, PictureOptions{Features: 2})
	wants(t, written(t, p.WriteText), "a? +", "·fa", "8 rows, 4 labels open", "  yes: b?", "  no:  e?", "{a, b} (3 rows)", "{c} (1 row)", "+ 1 more")
	wants(t, written(t, p.WriteDOT), "digraph tree {", `n0 -> n1 [style=solid, label=yes]`, `n0 -> n2 [style=dashed, label=no]`, `f\"b\"`, `label="{c}\n1 row"`, "·f c")
}

// A picture that ends early says how much it leaves out.
func TestPictureEnds(t *testing.T) {
	whole := figure2Picture(t, PictureOptions{})
	decisions := 0
	for _, n := range whole.Nodes {
		if !n.Leaf() {
			decisions++
		}
	}
	for name, o := range map[string]PictureOptions{"depth": {Depth: 1}, "nodes": {Nodes: 1}} {
		p := figure2Picture(t, o)
		text := written(t, p.WriteText)
		if got := strings.Count(text, "\n"); got != 3 || p.Hidden != decisions-1 {
			t.Errorf("%s: %d lines, %d of %d decisions hidden:\n%s", name, got, p.Hidden, decisions, text)
		}
		wants(t, text, "  yes: … 1 more decision (4 rows)")
	}
}

// One-against-rest has a tree a class, any of which can be shown alone; a leaf
// says how many of its rows have its answer.
func TestPictureOfClasses(t *testing.T) {
	_, _, models := trained(t)
	m := models[3]
	wants(t, written(t, m.Picture(PictureOptions{}).WriteText), "0 against the rest", "2 against the rest", "not 1 (", "·x")
	one := m.Picture(PictureOptions{Trees: []int{1, 7, -1}, Names: Names{Label: namedBy("", "one")}})
	text := written(t, one.WriteText)
	wants(t, text, "one against the rest\n", "no:  not one (")
	if strings.Contains(text, "0 against") {
		t.Error(text)
	}
}
