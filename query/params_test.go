package query

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/anndb/anndb/vector"
)

func TestBadParams(t *testing.T) {
	f := small()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	q := f.queries.row(0)
	put := func(x float32) []float32 {
		c := append([]float32(nil), q...)
		c[7] = x
		return c
	}
	noMembers := f.with(func(v *View) { g := *v.Forest; g.MemberDir = nil; v.Forest = &g })
	noTables := f.with(func(v *View) { g := *v.Forest; g.LeafDir = nil; v.Forest = &g })
	bare := f.with(func(v *View) { v.Forest = nil })
	cases := map[string]struct {
		v    *View
		q    []float32
		p    Params
		want error
	}{
		"k zero":      {f.v, q, Params{}, ErrParams},
		"k negative":  {f.v, q, Params{K: -1}, ErrParams},
		"flat k zero": {f.v, q, Params{Method: Flat}, ErrParams},
		"radius":      {f.v, q, Params{Range: true, Radius: nan}, ErrParams},
		"trees":       {f.v, q, Params{K: 1, Trees: -1}, ErrParams},
		"votes":       {f.v, q, Params{K: 1, Votes: -1}, ErrParams},
		"extra":       {f.v, q, Params{K: 1, Extra: -1}, ErrParams},
		"r":           {f.v, q, Params{K: 1, R: -1}, ErrParams},
		"tau below":   {f.v, q, Params{K: 1, Tau: -0.1}, ErrParams},
		"tau above":   {f.v, q, Params{K: 1, Tau: 1.1}, ErrParams},
		"tau NaN":     {f.v, q, Params{K: 1, Tau: math.NaN()}, ErrParams},
		"method":      {f.v, q, Params{K: 1, Method: 9}, ErrParams},
		"short":       {f.v, q[1:], Params{K: 1}, ErrDimension},
		"long":        {f.v, append(q, 1), Params{K: 1}, ErrDimension},
		"NaN":         {f.v, put(nan), Params{K: 1}, ErrNotFinite},
		"infinite":    {f.v, put(-inf), Params{K: 1, Method: Flat}, ErrNotFinite},
		"too long":    {f.v, put(1e30), Params{K: 1}, ErrNorm},
		"no forest":   {bare, q, Params{K: 1}, ErrMethod},
		"no members":  {noMembers, q, Params{K: 1, Method: Lookup}, ErrMethod},
		"no tables":   {noTables, q, Params{K: 1, Method: NaturalZero}, ErrMethod},
	}
	s := NewSearcher()
	for name, c := range cases {
		dst := []vector.Neighbor{{ID: 3}}
		got, _, err := s.Search(context.Background(), c.v, c.q, &c.p, dst)
		if !errors.Is(err, c.want) || len(got) != 1 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	good := map[string]Params{
		"many leaves":     {K: 1, Tau: 0.01, Extra: 300},
		"all leaves":      {K: 1, Tau: 0.01, Extra: math.MaxInt},
		"many of members": {K: 1, Method: Lookup, Extra: 300},
		"more trees":      {K: 1, Trees: 1000},
		"many votes":      {K: 1, Method: Voting, Votes: math.MaxInt},
		"k huge":          {K: math.MaxInt / 8},
		"sketch keeps":    {K: 30, Sketch: true, R: 3},
		"tau for zero":    {K: 1, Method: NaturalZero, Tau: 7},
	}
	for name, p := range good {
		if got, _, err := s.Search(context.Background(), f.v, q, &p, nil); err != nil || len(got) != min(p.K, f.v.Rows.N) {
			t.Errorf("%s: %d, %v", name, len(got), err)
		}
	}
}

func TestMethodNames(t *testing.T) {
	for m, want := range map[Method]string{Natural: "natural", NaturalZero: "natural-zero", Voting: "voting", Lookup: "lookup", Flat: "flat", 77: "method(77)"} {
		if m.String() != want {
			t.Errorf("%d is %q", m, m.String())
		}
	}
	var m Method
	for _, want := range []Method{Natural, NaturalZero, Voting, Lookup, Flat} {
		text, err := want.MarshalText()
		if err != nil || m.UnmarshalText(text) != nil || m != want {
			t.Errorf("%v is written %q, read %v (%v)", want, text, m, err)
		}
	}
	if err := m.UnmarshalText([]byte("hnsw")); !errors.Is(err, ErrParams) {
		t.Errorf("unknown name: %v", err)
	}
	if _, err := Method(9).MarshalText(); !errors.Is(err, ErrParams) {
		t.Errorf("unknown method: %v", err)
	}
}
