package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/anndb/anndb/internal/golden"
)

// TestReads reads the small files that testdata/reads.txt lists, a line each: a name, options as JSON if there
// are any, and the quoted content. Its answers are what is read, or the error. A file that can be read is read
// the same if it is compressed or begins with a byte order mark.
func TestReads(t *testing.T) {
	golden.Answers(t, "reads.txt", func(line string) string {
		name, rest, _ := strings.Cut(line, " ")
		var o Options
		if rest[0] == '{' {
			d := json.NewDecoder(strings.NewReader(rest))
			d.DisallowUnknownFields()
			must(t, d.Decode(&o))
			rest = rest[d.InputOffset()+1:]
		}
		if rest[0] == '`' {
			rest = strings.ReplaceAll(rest, "¶", "\n")
		}
		text, err := strconv.Unquote(rest)
		must(t, err)
		got, ok := whatIsRead(t, name, []byte(text), o)
		for _, data := range [][]byte{zipped(t, []byte(text)), []byte(byteOrderMark + text)} {
			if again, _ := whatIsRead(t, name, data, o); ok && again != got && !strings.HasPrefix(text, byteOrderMark) {
				t.Errorf("%s: %.10q is read as\n%s", line, data, again)
			}
		}
		return got
	})
}

// whatIsRead describes a file and its records, or its error.
func whatIsRead(t *testing.T, name string, data []byte, o Options) (text string, ok bool) {
	t.Helper()
	var b strings.Builder
	r, err := NewReader(name, bytes.NewReader(data), o)
	var all []Record
	if err == nil {
		defer r.Close()
		all, err = readAll(t, r)
		s := r.Schema()
		fmt.Fprintf(&b, "%s %d", s.Format, s.Dim)
		if s.Kind == Text {
			b.WriteString(" texts")
		}
		if s.Kind == Sparse {
			fmt.Fprintf(&b, " sparse, features %q, labels %d %q", s.FeatureNames, s.Labels, s.LabelNames)
		}
		b.WriteString("\n")
	}
	for _, rec := range all {
		fmt.Fprintf(&b, "%q %v", rec.Key, rec.Vector)
		if r.Schema().Kind == Text {
			fmt.Fprintf(&b, " %q", rec.Text)
		}
		for i, f := range rec.Features.Index {
			fmt.Fprintf(&b, " %d:%v", f, rec.Features.Value[i])
		}
		if len(rec.Labels) > 0 {
			fmt.Fprintf(&b, " labels %q", rec.Labels)
		}
		if rec.Payload != nil {
			fmt.Fprintf(&b, " payload %q", rec.Payload)
		}
		if len(rec.Attributes) > 0 {
			fmt.Fprintf(&b, " %#v", rec.Attributes)
		}
		if !rec.ExpiresAt.IsZero() {
			fmt.Fprintf(&b, " expires %v", rec.ExpiresAt)
		}
		b.WriteString("\n")
	}
	if err == nil {
		return b.String(), true
	}
	kind := "error"
	switch {
	case errors.Is(err, ErrMissing):
		kind = "missing"
	case errors.Is(err, ErrOption):
		kind = "bad option"
	case !errors.Is(err, ErrFormat):
		t.Errorf("%s: %q: %v", name, data, err)
	}
	fmt.Fprintf(&b, "%s: %s\n", kind, strings.ReplaceAll(err.Error(), "\n", `\n`))
	return b.String(), false
}
