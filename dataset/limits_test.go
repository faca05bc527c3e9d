package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestRecordLimits: limits are checked while a record is split, so that memory does not follow the number
// of its cells, labels, values or names.
func TestRecordLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("splits records of 4 MB")
	}
	const size = 4 << 20
	many := func(head, part, tail string) string {
		return head + strings.Repeat(part, size/len(part)) + tail
	}
	arff := "@relation 'x: -C 1'\n@attribute l {0,1}\n@attribute f numeric\n"
	for _, c := range []struct{ name, text, says string }{
		{"x.csv", many("", "1,", "1\n"), "columns"},
		{"x.csv", many("a,b\n1,2\n", "1,", "1\n"), "columns"},
		{"x.csv", many("", "1,\"\",", "1\n"), "columns"},
		{
			"x.csv", "v,label\n1," + strings.ReplaceAll(letters(size), ",", "|") + "\n",
			"more than 1024 labels",
		},
		{"x.csv", many("id,vector\n1,", "1 ", "\n"), "values"},
		{"x.csv", many("id,vector\n1,2 3\n1,", "1 ", "\n"), "values"},
		{"x.tsv", many("", "\t", "\n"), "columns"},
		{
			"x.jsonl", `{"vector":[1],"labels":["` + strings.ReplaceAll(letters(size), ",", `","`) + `"]}`,
			"more than 1024 labels",
		},
		{"x.jsonl", many(`{"vector":[`, `1,`, `1]}`), "values"},
		{"x.jsonl", many(`{"features":[`, `[],`, `[]]}`), "not an object"},
		{"x.jsonl", many(`{"features":{"indices":[`, `1,`, `1],"values":[]}}`), "features"},
		{"x.jsonl", many(`{"features":{"indices":[1],"values":[`, `1,`, `1]}}`), "features"},
		{"x.jsonl", many(`{"features":{`, `"a":1,`, `"b":1}}`), "features"},
		{"x.jsonl", many(`{"vector":[1],"attributes":{`, `"a":1,`, `"b":1}}`), "two values"},
		{"x.jsonl", many(`{"vector":[1],`, `"a":1,`, `"b":1}`), `"a" is given twice`},
		{"x.jsonl", many(`{"vector":[1],"payload":`, `[`, `}`), "byte"},
		{"x.jsonl", many(`{"vector":[1],"attributes":{"a":`, `{"$time":`, `}`), "byte"},
		{"x.svm", letters(size) + " 1:1\n", "more than 1024 labels"},
		{"x.svm", many("1 ", "1:1 ", "\n"), "more than 65536 features"},
		{"x.xmc", many("1 9 9\n1 ", "1:1 ", "\n"), "more than 65536 features"},
		{"x.arff", many(arff+"@data\n{", "1 1,", "1 1}\n"), "given twice"},
		{"x.arff", many(arff+"@attribute a {", "b,", "b}\n@data\n"), "given twice"},
		{"x.arff", many(arff, "@attribute f numeric\n", "@data\n"), "given twice"},
		{"x.arff", many(arff+"@data\n0 ", "1 ", "\n"), "more than 2 values"},
		{"x.arff", arff + "@attribute " + strings.Repeat("n", size/2) + " {" + letters(size/64) + "}\n@data\n", "name longer"},
	} {
		t.Run(c.name+c.says, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := load(t, c.name, []byte(c.text), Options{})
			runtime.ReadMemStats(&after)
			wantFormatError(t, err)
			if !strings.Contains(err.Error(), c.says) || len(err.Error()) > 300 {
				t.Errorf("%.300s, want %q", err, c.says)
			}
			// The line grows by doubling, and its text is copied once or twice.
			if got := after.TotalAlloc - before.TotalAlloc; got > 10*uint64(len(c.text)) {
				t.Errorf("%d bytes allocated for %d of the file: %v", got, len(c.text), err)
			}
		})
	}
}

// letters are different values of a nominal attribute, about n bytes.
func letters(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "v%d,", i)
	}
	return b.String() + "last"
}

// TestNameLimits: lists of names have limits of their own.
func TestNameLimits(t *testing.T) {
	for name, text := range map[string]string{
		"blank": strings.Repeat("\n", maxNames+2), "long": strings.Repeat("x", maxTextRecord+bufferSize),
		"one line of returns": "a\rb\rc\r",
	} {
		_, err := ReadNames(tempFile(t, "names", []byte(text)), 0)
		if wantFormatError(t, err); len(err.Error()) > 300 {
			t.Errorf("%s: %.300s", name, err)
		}
	}
	for says, text := range map[string]string{
		"max depth": strings.Repeat("<label>", 1<<20),
		"no labels": "<label " + strings.Repeat(`a="" `, 1<<20) + "/>",
		"more than": "<labels>" + strings.Repeat("a", maxXML) + "</labels>",
	} {
		_, err := readLabelsXML(t.Context(), tempFile(t, "x.xml", []byte(text)))
		if wantFormatError(t, err); !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}

// counted counts the bytes that are read of an endless file, and cancels a context after some.
type counted struct {
	head   io.Reader
	body   endless
	limit  int
	cancel func()
	late   int // bytes read after the cancellation
}

func (c *counted) Read(p []byte) (int, error) {
	if n, err := c.head.Read(p); err == nil {
		return n, nil
	}
	n, err := c.body.Read(p)
	if c.body.taken > c.limit {
		if c.cancel != nil {
			c.cancel()
			c.cancel = nil
			return n, err
		}
		c.late += n
	}
	return n, err
}

// TestReadingIsCancelled: reading ends within a megabyte of the file once the context is cancelled, inside
// of one record and where no record comes.
func TestReadingIsCancelled(t *testing.T) {
	for name, c := range map[string]struct{ head, pattern string }{
		"one.csv": {"key,v,payload\nk,1,\"", "abc"}, "one.jsonl": {`{"payload":"`, "abc"},
		"blank.csv": {"1,2\n3,4\n", "\n"}, "blank.jsonl": {"{\"vector\":[1]}\n", "\n"},
		"comments.svm": {"1 1:1\n", "# note\n"}, "comments.arff": {"@relation 'x: -C 0'\n@attribute f numeric\n", "% note\n"},
		"rows.csv": {"1,2\n3,4\n", "5,6\n"}, "rows.bvecs": {"", "\x02\x00\x00\x00\x01\x02"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		in := &counted{head: strings.NewReader(c.head), body: endless{pattern: c.pattern}, limit: 1 << 20, cancel: cancel}
		r, err := NewReader(name, in, Options{Context: ctx})
		for err == nil {
			err = r.Read(new(Record))
		}
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrFormat) || in.late > 1<<20 {
			t.Errorf("%s: %v, %d bytes read after it", name, err, in.late)
		}
	}
}

// TestCompressedReadingIsCancelled: the context is checked while a file is decompressed.
func TestCompressedReadingIsCancelled(t *testing.T) {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	must(t, err)
	_, err = w.Write([]byte("1,2\n3,4\n" + strings.Repeat("\n", 64<<20)))
	must(t, err)
	must(t, w.Close())
	ctx, cancel := context.WithCancel(t.Context())
	r, err := NewReader("x.csv.zst", &b, Options{Context: ctx})
	must(t, err)
	must(t, r.Read(new(Record)))
	must(t, r.Read(new(Record)))
	cancel()
	if err := r.Read(new(Record)); !errors.Is(err, context.Canceled) || errors.Is(err, ErrFormat) {
		t.Errorf("%v, want that of the context", err)
	}
}
