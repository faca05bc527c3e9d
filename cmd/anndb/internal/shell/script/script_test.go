package script

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // words in <>, a command a line
		open bool
	}{
		{"stats", "<stats>", false},
		{"count a; count b\n\n  stats # all\n# none", "<count><a>\n<count><b>\n<stats>", false},
		{`get c 'two words' "a \"b\"" c\ d`, `<get><c><two words><a "b"><c d>`, false},
		{"search c [1, 2,\n 3] -k 3", "<search><c><[1, 2,\n 3]><-k><3>", false},
		{"put c k [[1, 2], 3]", "<put><c><k><[[1, 2], 3]>", false},
		{`rows c where price < 20 and key prefix "a b/" -k 3`,
			`<rows><c><--where=price < 20 and key prefix "a b/"><-k><3>`, false},
		{"rows c where a = -1 --limit 3", "<rows><c><--where=a = -1><--limit><3>", false},
		{"rows c where a = 1; stats", "<rows><c><--where=a = 1>\n<stats>", false},
		{"rows c where a = 1 # b", "<rows><c><--where=a = 1>", false},
		{"where a", "<where><a>", false},
		{"get c 'where' x", "<get><c><where><x>", false},
		{"get c ''", "<get><c><>", false},
		{"get c a\u00a0b a\u0085 \u3000", "<get><c><a\u00a0b><a\u0085><\u3000>", false},
		{"get c 'a\nb", "<get><c><a\nb>", true},
		{"search c [1, 2", "<search><c><[1, 2>", true},
		{`rows c where a = "x`, `<rows><c><--where=a = "x>`, true},
		{"", "", false},
		{`import c C:\data\x.csv`, `<import><c><C:\data\x.csv>`, false},
		{"a\\", "<a\\>", false},
	} {
		commands, err := Split(c.text)
		if errors.Is(err, ErrOpen) != c.open {
			t.Errorf("%q: error %v", c.text, err)
		}
		var lines []string
		for _, command := range commands {
			lines = append(lines, "<"+strings.Join(command.Words, "><")+">")
		}
		if diff := cmp.Diff(c.want, strings.Join(lines, "\n")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.text, diff)
		}
	}
}

func TestSplitLines(t *testing.T) {
	commands, err := Split("a\n\nb 'x\ny'\nc")
	if err != nil || len(commands) != 3 || commands[1].Line != 3 || commands[2].Line != 5 {
		t.Errorf("%v, %v", commands, err)
	}
}

func TestTyped(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // the words
		last string // as it is typed
	}{
		{"", "<>", ""},
		{"count a; ge", "<ge>", "ge"},
		{"get c ", "<get><c><>", ""},
		{`get c two\ w`, "<get><c><two w>", `two\ w`},
		{`get c 'two w`, "<get><c><two w>", `'two w`},
		{"get c 日", "<get><c><日>", "日"},
		{"get c a\u00a0", "<get><c><a\u00a0>", "a\u00a0"},
		{"rows c where", "<>", ""},
		{"rows c where label in (re", "<>", ""},
		{"rows c where a = 1 --li", "<rows><c><--where=a = 1><--li>", "--li"},
		{"search c [1, ", "<search><c><[1, >", "[1, "},
		{"get \xd0\xd0 \xd0", "<get><\ufffd\ufffd><\ufffd>", "\xd0"},
	} {
		words, at := Typed(c.text)
		if got := "<" + strings.Join(words, "><") + ">"; got != c.want || c.text[at:] != c.last {
			t.Errorf("%q: %s, %q, want %s, %q", c.text, got, c.text[at:], c.want, c.last)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(`rows c where a < 'x' --limit [1, 2]; \mode json`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, at := Typed(text); at > len(text) {
			t.Errorf("%q: the last word begins at %d", text, at)
		}
		commands, _ := Split(text)
		for _, c := range commands {
			if len(c.Words) == 0 || c.Line < 1 {
				t.Errorf("%q: %v", text, c)
			}
		}
		if text = strings.ToValidUTF8(text, ""); strings.Contains(text, "\ufffd") {
			return
		}
		commands, err := Split("get " + Escape(text))
		if err != nil || len(commands) != 1 || len(commands[0].Words) != 2 || commands[0].Words[1] != text {
			t.Errorf("%q is %q: %+v, %v", text, Escape(text), commands, err)
		}
	})
}
