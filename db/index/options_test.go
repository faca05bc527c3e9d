package index

import (
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/internal/golden"
)

// TestCheck checks the options of testdata/options.txt, a line each: a kind, the dimension of the rows, 0 for
// sparse ones, and the options as JSON. Answers are why they are refused.
func TestCheck(t *testing.T) {
	field := regexp.MustCompile(`[A-Z][A-Za-z]+(\.[A-Z][A-Za-z]+)*`)
	golden.Answers(t, "options.txt", func(line string) string {
		part := strings.SplitN(line, " ", 3)
		o := map[string]Options{
			"forest": &Forest{}, "lcif": &LCIF{}, "postings": &Postings{}, "trees": &Trees{}, "auto": &Auto{},
		}[part[0]]
		dim, err := strconv.Atoi(part[1])
		d := json.NewDecoder(strings.NewReader(part[2]))
		d.DisallowUnknownFields()
		if err := errors.Join(err, d.Decode(o)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		err = o.Check(dim)
		if err == nil {
			return "good\n"
		}
		refused, ok := errors.AsType[*Error](err)
		if !ok || !errors.Is(err, fail.ErrInvalid) {
			t.Fatalf("%s: %v", line, err)
		}
		// A command names its flags in the place of fields.
		text := refused.Text(func(string) string { return "--flag" })
		if !strings.Contains(text, "--flag") || strings.ContainsAny(text, "{}") {
			t.Errorf("%v as text of a command: %q", err, text)
		}
		_, said, _ := strings.Cut(err.Error(), "invalid option: ")
		if !field.MatchString(said) {
			t.Errorf("%v names no field", err)
		}
		return said + "\n"
	})
	// JSON has no such numbers.
	for _, o := range []Options{
		&LCIF{VectorWeight: math.NaN()}, &Forest{LeafNeighbors: math.MaxInt},
	} {
		if err := o.Check(4); !errors.Is(err, fail.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
