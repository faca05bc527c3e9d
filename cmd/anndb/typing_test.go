//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// typedKeys are keys in letters, marks and joiners that line editors are known to lose. The é of the
// last one is an e and an accent.
var typedKeys = strings.Fields("Müller Straße café 日本語キー हिन्दी 👍🏽 👨\u200d👩\u200d👧 é e\u0301 kò")

// latin has all that Latin-1 can print, without a blank between.
func latin() string {
	var b strings.Builder
	for r := rune(0xa0); r <= 0xff; r++ {
		b.WriteRune(r)
	}
	return b.String()
}

// TestShellStoresWhatIsTyped: keys are stored, completed and deleted as they are typed and pasted.
func TestShellStoresWhatIsTyped(t *testing.T) {
	t.Parallel()
	for _, locale := range []string{"C.UTF-8", "C"} {
		t.Run(locale, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "a.anndb")
			s := openShell(t, dir, file+" --format jsonl", "LANG="+locale, "LC_ALL="+locale)
			s.runs("create c --dim 1", `{"collection": "c"`)
			keys := append([]string{latin()}, typedKeys...)
			for _, key := range keys { // one keystroke a write, as when typing
				for _, r := range "put c " + key + " [1] --label " + key {
					s.types(string(r))
				}
				s.runs("", `{"collection": "c"`)
			}
			s.want(t, file, keys)
			for _, key := range keys {
				s.runs("get c "+key, `{"key": `+jsonOf(key))
			}
			for _, key := range keys[1:] { // completed behind its first character
				first := string([]rune(key)[:1])
				if key == "e\u0301" { // e alone is a prefix of no other key
					first = "e"
				}
				s.types("get c " + first + "\t")
				s.sees("get c " + key + " ")
				s.runs("", `{"key": `+jsonOf(key))
			}
			s.types("get c Mller" + strings.Repeat("\x02", 4) + "ü\r") // in the middle of a line
			s.prompts(`{"key": "Müller"`)
			s.runs("delete c M\xfcller", `{"error":"the line has a character that is not UTF-8`)
			var paste strings.Builder
			for _, key := range keys[:len(keys)-1] {
				paste.WriteString("delete c " + key + "\r")
			}
			s.types(paste.String() + "count c\r")
			s.prompts(`{"collection": "c", "rows": 1}`)
			s.want(t, file, keys[len(keys)-1:])
		})
	}
}

// want checks the keys of the file.
func (s *screen) want(t *testing.T, file string, keys []string) {
	t.Helper()
	out, _, _ := anndb(t, "rows", file, "c", "--format", "jsonl")
	for _, key := range keys {
		row := `{"key": ` + jsonOf(key) + `, "labels": [` + jsonOf(key) + `]`
		if !strings.Contains(out, row) {
			t.Errorf("no %s in\n%s", row, out)
		}
	}
	if n := strings.Count(out, "\n"); n != len(keys) {
		t.Errorf("%d rows, want %d:\n%s", n, len(keys), out)
	}
}

// jsonOf is a key in JSON.
func jsonOf(key string) string { return `"` + key + `"` }

// TestShellOnDumbTerminals: where the cursor cannot be moved, prompts are plain.
func TestShellOnDumbTerminals(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"dumb", ""} {
		dir := t.TempDir()
		file := filepath.Join(dir, "a.anndb")
		s := openShell(t, dir, file, "TERM="+name)
		text := s.runs("create c --dim 2", "collection")
		s.types("put c x [1,\n")
		s.sees("...> ")
		s.types("\x04") // which cancels the put
		text += s.prompts("")
		s.types("put c Müller [1,\n2]\n")
		text += s.prompts("c           Müller  false")
		if strings.Contains(text, "\x1b") {
			t.Errorf("TERM=%s has escape sequences: %q", name, text)
		}
		s.types("\x04")
		if err := s.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}
