package script

import (
	"strings"
	"testing"
)

func TestTyped(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // the words
		more string
		next string // what Continue appends
	}{
		{"", "<>", "get", "get "},
		{"count a; ge", "<ge>", "t", "t "},
		{"get c ", "<get><c><>", "two words", `two\ words `},
		{"get c ", "<get><c><>", "where", "'where' "},
		{`get c two\ w`, "<get><c><two w>", "ords", "ords "},
		{`get c "two w`, "<get><c><two w>", `o"s`, `o\"s" `},
		{`get c 'two w`, "<get><c><two w>", `o's`, `o'\''s' `},
		{"get c 日", "<get><c><日>", "本語", "本語 "},
		{"get c a\u00a0", "<get><c><a\u00a0>", "b", "b "},
		{"rows c where", "<rows><c><where>", "", " "},
		{"rows c where ", "<rows><c><--where= >", "price", "price "},
		{"rows c where label in (re", "<rows><c><--where=label in (re>", "d", "d "},
		{"rows c where label in ", "<rows><c><--where=label in >", "(", "( "},
		{`rows c where label = "two w`, `<rows><c><--where=label = "two w>`, `ords"`, `ords" `},
		{"rows c where a = 1 --li", "<rows><c><--where=a = 1><--li>", "mit", "mit "},
		{"rows c --where 'label in (re", "<rows><c><--where><label in (re>", "d", "d "},
		{"rows c --where='label in (re", "<rows><c><--where=label in (re>", "d", "d "},
		{`\mode js`, `<\mode><js>`, "on", "on "},
		{`\mode `, `<\mode><>`, "json", "json "},
		{"search c [1, ", "<search><c><[1, >", "", " "},
	} {
		typed := Parse(c.text)
		if got := "<" + strings.Join(typed.Words, "><") + ">"; got != c.want {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
		if got := typed.Continue(c.more, true); got != c.next {
			t.Errorf("%q continued by %q: %q, want %q", c.text, c.more, got, c.next)
		}
	}
}
