package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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

// A file that a later version has written is called that, not a file that does not begin like a database.
func TestNewerMessage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.anndb")
	d, err := db.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.ReplaceAll(data, []byte("ANNB\x01\x00"), []byte("ANNB\x02\x00"))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = db.Open(t.Context(), path, nil)
	text := Message(Explain(path, err))
	if !strings.Contains(text, ": written by a newer version: ") || strings.Contains(text, LikeNothing) {
		t.Errorf("%q", text)
	}
}
