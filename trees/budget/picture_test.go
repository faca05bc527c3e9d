package budget

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/internal/plot"
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
	svg := written(t, p.WriteSVG)
	elements := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		must(t, err)
		if e, ok := token.(xml.StartElement); ok {
			elements[e.Name.Local]++
		}
	}
	if elements["rect"] != 1+7 || elements["path"] != 6 {
		t.Errorf("%v in\n%s", elements, svg)
	}
	wants(t, svg, "stroke-dasharray", "f&lt;e&gt;", ">no</text>")
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
		if len(p.Layout().Boxes) != 3 {
			t.Errorf("%s: %+v", name, p.Layout())
		}
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

// Whatever the tree, boxes lie inside the picture and apart from each other,
// edges touch both their boxes, and texts fit the boxes.
func TestLayoutProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		p := &Picture{Kind: rapid.SampledFrom([]Kind{SBT, AT, PT}).Draw(t, "kind")}
		grow := func(budget int) {
			stack := []PictureNode{{Above: -1}}
			for len(stack) > 0 {
				n := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				n.Note = "some rows"
				switch at := len(p.Nodes); {
				case budget > 0 && (rng.IntN(4) > 0 || n.Above < 0):
					budget--
					n.Asks = strings.Repeat("w", rng.IntN(60))
					for range rng.IntN(4) {
						n.Terms = append(n.Terms, strings.Repeat("i", rng.IntN(20)))
					}
					stack = append(stack, PictureNode{Above: at, Depth: n.Depth + 1}, PictureNode{Above: at, Depth: n.Depth + 1, Yes: true})
				case rng.IntN(3) == 0:
					n.Hidden = 3
				default:
					n.Ref = -1
					n.Answer = []string{"x"}
					for range rng.IntN(40) {
						n.Answer = append(n.Answer, fmt.Sprint("label ", rng.IntN(1000)))
					}
				}
				p.Nodes = append(p.Nodes, n)
			}
		}
		for range 1 + rng.IntN(3) {
			grow(rng.IntN(20))
		}
		d := p.Layout()
		for i, b := range d.Boxes {
			if b.X-b.Width/2 < 0 || b.X+b.Width/2 > d.Width || b.Y < 0 || b.Y+b.Height > d.Height {
				t.Fatalf("%+v leaves the picture of %v × %v", b, d.Width, d.Height)
			}
			if b.Height < float64(len(b.Lines))*d.LineHeight {
				t.Fatalf("%d lines in %+v", len(b.Lines), b)
			}
			for _, line := range b.Lines {
				if plot.TextWidth(line, drawText) > b.Width {
					t.Fatalf("%q is wider than %v", line, b.Width)
				}
			}
			for _, c := range d.Boxes[:i] {
				if min(b.X+b.Width/2, c.X+c.Width/2) > max(b.X-b.Width/2, c.X-c.Width/2) &&
					min(b.Y+b.Height, c.Y+c.Height) > max(b.Y, c.Y) {
					t.Fatalf("%+v and %+v overlap", b, c)
				}
			}
		}
		e := 0
		for i, n := range p.Nodes {
			if n.Above < 0 {
				continue
			}
			up, b, edge := d.Boxes[n.Above], d.Boxes[i], d.Edges[e]
			e++
			if edge != (Edge{up.X, up.Y + up.Height, edge.Bend, b.X, b.Y, n.Yes}) || edge.Bend < edge.Y || edge.Bend > edge.ToY {
				t.Fatalf("%+v between %+v and %+v", edge, up, b)
			}
			if n.Yes == (b.X >= up.X) {
				t.Fatalf("the side of %+v below %+v", b, up)
			}
		}
		if e != len(d.Edges) {
			t.Fatalf("%d edges", len(d.Edges))
		}
	})
}

func TestWrap(t *testing.T) {
	long := strings.TrimSuffix(strings.Repeat("some label, ", 60), ", ")
	lines := wrap(long, 4)
	if len(lines) != 4 || !strings.HasSuffix(lines[3], "…") || strings.HasSuffix(lines[2], "…") {
		t.Errorf("%q", lines)
	}
	if got := wrap("a, b", 4); !slices.Equal(got, []string{"a, b"}) {
		t.Errorf("%q", got)
	}
	word := strings.Repeat("W", 200)
	if got := wrap(word, 4); len(got) != 1 || got[0] != shorten(word) {
		t.Errorf("%q", got)
	}
	if got := wrap(long[:40], 4); strings.Join(got, " ") != long[:40] {
		t.Errorf("%q", got)
	}
	if got := bytes.Count([]byte(shorten("界"+word)), []byte("界")); got != 1 {
		t.Errorf("%d", got)
	}
}
