package optionflags

import (
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

type inner struct {
	Weight float64 `flag:"weight" needed:""`
	Deep   *struct {
		Cut float64 `flag:"cut"`
	}
}

type options struct {
	Name  string `flag:"name" enum:"a,b"`
	Count int    `flag:"count"`
	Sizes []int  `flag:"sizes"`
	On    bool   `flag:"on" without:"count"`
	Inner *inner `group:"Inner:"`
	Plain int
}

type other struct {
	Count int `flag:"count"`
	Only  int `flag:"only"`
}

// parsed returns the flags of a command line.
func parsed(t *testing.T, args ...string) *Set {
	t.Helper()
	s, plugins := New(Source{Options: &options{}, Kinds: "x"}, Source{Options: &other{}, Kinds: "y and z"})
	var grammar struct{ kong.Plugins }
	grammar.Plugins = plugins
	k, err := kong.New(&grammar)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFill compares options that flags have filled in with the same literals.
func TestFill(t *testing.T) {
	cut := &inner{Weight: 0.5, Deep: &struct {
		Cut float64 `flag:"cut"`
	}{0}}
	for _, c := range []struct {
		args string
		want options
		err  string
	}{
		{"", options{}, ""},
		{"--name b --count 0 --sizes 1,2 --on", options{Name: "b", Sizes: []int{1, 2}, On: true}, ""},
		{"--count=-3", options{Count: -3}, ""},
		{"--weight 0.5 --cut 0", options{Inner: cut}, ""},
		{"--cut 0", options{}, "--cut goes with --weight"},
		{"--only 0", options{}, "--only goes with --kind y and z"},
	} {
		s := parsed(t, strings.Fields(c.args)...)
		if s.Any() != (c.args != "") {
			t.Errorf("%q: any flag: %v", c.args, s.Any())
		}
		var got options
		err := s.Fill(&got)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%q: %v, want %q", c.args, err, c.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %+v, %v; want %+v", c.args, got, err, c.want)
		}
	}
}

// TestName asks for the flags of a field, of a struct and of a field without a flag.
func TestName(t *testing.T) {
	for path, want := range map[string]string{
		"Count": "--count", "Inner.Weight": "--weight", "Inner": "--weight or --cut", "Plain": "--plain",
	} {
		if got := Name(&options{}, path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
