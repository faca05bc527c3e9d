package text

import (
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// registered are the analyzers of programs by name.
var registered sync.Map

// Register makes an analyzer known by a name, which collections refer to: a program that writes or
// searches texts of such a collection must register it first. It must give the same tokens as long as
// the collection exists, so a changed one needs another name. Registering a name twice is an error.
func Register(name string, a Analyzer) error {
	switch {
	case a == nil:
		return fmt.Errorf("text: analyzer %q is nil", name)
	case name == "" || len(name) > MaxTerm || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("text: name %q of an analyzer: want 1 to %d bytes of UTF-8", name, MaxTerm)
	case ByName(name) != nil:
		return fmt.Errorf("text: an analyzer %q is registered already", name)
	}
	if _, twice := registered.LoadOrStore(name, a); twice {
		return fmt.Errorf("text: an analyzer %q is registered already", name)
	}
	return nil
}
