package where

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"pgregory.net/rapid"

	"github.com/anndb/anndb/db/internal/fail"
)

// mixed replaces some conditions of a filter by functions and sets of rows, which have no text form.
func mixed(t *rapid.T, e Expr, calls *int) Expr {
	switch e := e.(type) {
	case *Group:
		parts := make([]Expr, len(e.Parts()))
		for i, part := range e.Parts() {
			parts[i] = mixed(t, part, calls)
		}
		return group(e.Any, parts)
	case *Not:
		return Negate(mixed(t, e.Of, calls))
	}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return &KeyFunc{func(key []byte) bool { *calls++; return len(key) > 1 }}
	case 1:
		return &Rows{roaring.BitmapOf(1, 2, 3, 5, 8, 13, 21), "bed", nil}
	}
	return e
}

// TestEvaluate compares evaluation by sets with the definition of each condition, row by row.
func TestEvaluate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rows().Draw(t, "rows")
		calls := 0
		e := mixed(t, exprs().Draw(t, "filter"), &calls)
		got, err := Evaluate(t.Context(), e, b)
		if err != nil {
			t.Fatal(err)
		}
		if calls > 0 {
			t.Fatal("functions were called before they are needed")
		}
		if got.Accept == nil && lazy(e) {
			t.Fatal("no function")
		}
		for i := range b {
			r, number := &b[i], uint32(i)
			if r.deleted {
				continue
			}
			pass := (got.Set == nil || got.Set.Contains(number)) &&
				(got.Accept == nil || got.Accept(number, []byte(r.key)))
			if pass != passes(e, number, r) {
				t.Fatalf("%s: row %d passes: %t", Text(e), number, pass)
			}
		}
	})
}

// TestFunctionsLast: functions decide only on rows that pass everything else.
func TestFunctionsLast(t *testing.T) {
	f := &KeyFunc{func([]byte) bool { t.Error("called"); return true }}
	label := &HasLabel{[]string{"boot"}}
	b := bed{{key: "a", labels: []string{"bag"}}, {key: "b", labels: []string{"boot"}}}
	for name, e := range map[string]Expr{
		"and":        And(f, label),
		"nested and": And(Or(And(f, label), And(f, Negate(Every(true))))),
		"or":         Or(f, Negate(label)),
	} {
		got, err := Evaluate(t.Context(), e, b)
		if err != nil || got.Accept == nil {
			t.Fatal(err)
		}
		if got.Set == nil || got.Set.Contains(0) {
			got.Accept(0, []byte("a"))
		}
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// TestSourceUnchanged: sets of the source are shared, so evaluation must not change them.
func TestSourceUnchanged(t *testing.T) {
	set := roaring.BitmapOf(0, 2)
	r := &Rows{set, "bed", nil}
	b := bed{{labels: []string{"x"}}, {labels: []string{"x"}}, {}}
	label := &HasLabel{[]string{"x"}}
	for _, e := range []Expr{
		And(r, label), And(r, Negate(label)), Or(r, label), Negate(r), And(r, r), Or(r, Negate(r)), r,
	} {
		if _, err := Evaluate(t.Context(), e, b); err != nil {
			t.Fatal(err)
		}
		if !set.Equals(roaring.BitmapOf(0, 2)) {
			t.Fatalf("%s changed the set to %v", Text(e), set)
		}
	}
}

// TestBad: a bad value is an error wherever it is in the filter, also where it decides nothing.
func TestBad(t *testing.T) {
	b := bed{{key: "a"}}
	deep := Expr(&HasLabel{[]string{"x"}})
	for range maxDepth + 1 {
		deep = Negate(deep)
	}
	for text, e := range map[string]Expr{
		"attribute \"price\": value is NaN": MakeCompare("price", Less, math.NaN()),
		"type []int":                        MakeCompare("x", OneOf, 1, []int{1}),
		"exceeds":                           MakeRange("x", nil, uint64(math.MaxUint64)),
		"no value":                          MakeCompare("x", Equal, nil),
		"name \"\" (want":                   MakeCompare("", Present),
		"name \"\\xff\" (want":              MakeCompare("\xff", HasPrefix, "a"),
		"is not UTF-8":                      MakeCompare("x", HasPrefix, "\xff"),
		"nested":                            deep,
	} {
		for _, whole := range []Expr{e, And(Every(false), e), Or(Every(true), Negate(e))} {
			_, err := Evaluate(t.Context(), whole, b)
			if !errors.Is(err, fail.Filter) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %q", Text(whole), err, text)
			}
		}
	}
	if _, err := Evaluate(t.Context(), And(Every(false), &Rows{roaring.New(), "other", nil}), b); err == nil {
		t.Error("rows of another collection: no error")
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x, y := MakeCompare("x", Present), MakeCompare("y", Present)
	for _, e := range []Expr{x, &HasLabel{[]string{"x"}}, Or(x, y)} {
		if _, err := Evaluate(ctx, e, bed{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", Text(e), err)
		}
	}
}

// TestLongChains: a filter that a loop extends takes time and memory in proportion to its length,
// wherever the parts are added, and one that is combined with itself does not double.
func TestLongChains(t *testing.T) {
	const n = 300_000
	x, y := MakeCompare("x", Present), MakeCompare("y", Present)
	for name, extend := range map[string]func(e Expr) Expr{
		"and after":   func(e Expr) Expr { return And(e, x) },
		"and before":  func(e Expr) Expr { return And(x, e) },
		"or after":    func(e Expr) Expr { return Or(e, x) },
		"or in front": func(e Expr) Expr { return Or(x, e) },
	} {
		e := extend(y)
		for range n - 2 {
			e = extend(e)
		}
		g, ok := e.(*Group)
		if !ok || g.levels() != 1 || len(g.Parts()) != n {
			t.Errorf("%s: %T", name, e)
			continue
		}
		if first := g.Parts()[0] == y; first != strings.HasSuffix(name, "after") {
			t.Errorf("%s: the parts are in another order", name)
		}
	}
	e := And(x, y)
	for range 100 {
		e = And(e, e)
	}
	if n := len(e.(*Group).Parts()); n != 2 {
		t.Errorf("%d parts of a filter that was combined with itself, want 2", n)
	}
}
