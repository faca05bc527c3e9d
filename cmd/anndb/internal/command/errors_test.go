package command

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
)

// TestReplacedMessage: what a command says of a file that is moved while it works is one sentence, and
// not that of a file that never was.
func TestReplacedMessage(t *testing.T) {
	for _, sentinel := range []error{db.ErrReplaced, db.ErrLinked} {
		err := fmt.Errorf("%w: stat x.anndb: %w", sentinel, os.ErrNotExist)
		text := Message(Explain("x.anndb", err))
		if !strings.HasPrefix(text, "x.anndb ") || strings.Contains(text, "create and import") ||
			strings.Contains(text, "db:") {
			t.Errorf("%q", text)
		}
	}
}
