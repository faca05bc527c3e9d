package command

import (
	"strings"
	"testing"
)

func TestQuoting(t *testing.T) {
	for text, want := range map[string]string{
		"plain über\n\ttext": "plain über\n\ttext",
		"\x1b[31mred\x7f":    `\x1b[31mred\x7f`,
		"a\u009bb\r":         `a\x9bb\x0d`,
		"a\x00":              `a\x00`,
	} {
		var b strings.Builder
		n, err := quoting{&b}.Write([]byte(text))
		if b.String() != want || n != len(text) || err != nil {
			t.Errorf("%q: %q, %d, %v", text, b.String(), n, err)
		}
	}
}
