package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var writeGolden = flag.Bool("write-golden", false, "write what is read into testdata/reads.txt")

// TestReads reads the small files that testdata/reads.txt lists, a line each: a name, options as JSON if there
// are any, and the quoted content. Indented lines below have what is read, or the error; -write-golden writes
// them. A file that can be read is read the same if it is compressed or begins with a byte order mark.
func TestReads(t *testing.T) {
	file := filepath.Join("testdata", "reads.txt")
	list, err := os.ReadFile(file)
	must(t, err)
	var out strings.Builder
	for line := range strings.Lines(string(list)) {
		if line[0] == '\t' {
			continue
		}
		out.WriteString(line)
		if line[0] == '#' || line[0] == '\n' {
			continue
		}
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
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
		out.WriteString(got)
		if !ok {
			continue
		}
		for _, data := range [][]byte{zipped(t, []byte(text)), []byte(byteOrderMark + text)} {
			if again, _ := whatIsRead(t, name, data, o); again != got && !strings.HasPrefix(text, byteOrderMark) {
				t.Errorf("%s: %.10q is read as\n%s", line, data, again)
			}
		}
	}
	if *writeGolden {
		must(t, os.WriteFile(file, []byte(out.String()), 0o644))
	} else if diff := cmp.Diff(string(list), out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
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
		fmt.Fprintf(&b, "\t%s %d", s.Format, s.Dim)
		if s.Kind == Sparse {
			fmt.Fprintf(&b, " sparse, features %q, labels %d %q", s.FeatureNames, s.Labels, s.LabelNames)
		}
		b.WriteString("\n")
	}
	for _, rec := range all {
		fmt.Fprintf(&b, "\t%q %v", rec.Key, rec.Vector)
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
	fmt.Fprintf(&b, "\t%s: %s\n", kind, strings.ReplaceAll(err.Error(), "\n", `\n`))
	return b.String(), false
}
