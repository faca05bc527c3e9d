package where

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/anndb/anndb/internal/golden"
)

// TestParse parses the filters of testdata/parse.txt, a line each. Its answers are the text of the filter that
// was parsed, or the error with its place.
func TestParse(t *testing.T) {
	golden.Answers(t, "parse.txt", func(text string) string {
		if text[0] == '"' {
			var err error
			if text, err = strconv.Unquote(text); err != nil {
				t.Fatal(err)
			}
		}
		e, err := Parse(text)
		if at, ok := errors.AsType[*Error](err); ok {
			return fmt.Sprintf("column %d: %s\n%s\n", at.Column(), at.Reason, at.Caret())
		} else if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		return Text(e) + "\n"
	})
}
