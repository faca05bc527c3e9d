package dataset

import (
	"fmt"
	"strings"
	"testing"
)

// TestWords: word vectors as GloVe, word2vec and fastText write them, detected by their content.
func TestWords(t *testing.T) {
	word := func(key string, v ...float32) Record { return Record{Key: []byte(key), Vector: v} }
	for name, c := range map[string]struct {
		file, text string
		want       []Record
	}{
		"GloVe": {"glove.txt", "the 0.1 0.2\n, 1 2\n\" 3 4\n5 6 7\n", []Record{
			word("the", 0.1, 0.2), word(",", 1, 2), word("\"", 3, 4), word("5", 6, 7)}},
		"word2vec":    {"x.txt", "2 3\n</s> 1 2 3\nin 4 5 6\n", []Record{word("</s>", 1, 2, 3), word("in", 4, 5, 6)}},
		"fastText":    {"x.vec", "2 2\n, 1 2 \n; 3 -4e1 \r\n", []Record{word(",", 1, 2), word(";", 3, -40)}},
		"odd words":   {"x", "a 1 2\n. . 3 4\n\u00a0 5 6\n#% 7 8\nat x@y.z 9 0\n", []Record{word("a", 1, 2), word(". .", 3, 4), word("\u00a0", 5, 6), word("#%", 7, 8), word("at x@y.z", 9, 0)}},
		"one number":  {"x.vec", "2 1\na 1\nb 2\n", []Record{word("a", 1), word("b", 2)}},
		"no counts":   {"x.vec", "2 1\n3 4\n", []Record{word("2", 1), word("3", 4)}},
		"tabs, blank": {"x.vec", "a\t1\t2\n\nb\t3 4", []Record{word("a", 1, 2), word("b", 3, 4)}},
	} {
		got, err := load(t, c.file, []byte(c.text), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		compare(t, got, c.want)
	}
	for text, says := range map[string]string{
		"2 2\na 1 2\n": "truncated", "1 2\na 1 2\nb 1 2\n": "more rows than the 1", "a 1 2\nb 1\n": "1 numbers, the rows before have 2",
		"a 1 2\nb 1 2 3\n": "more than 2 numbers", "a 1 2\nb x 1 y\n": `"y" is not a number`, "a 1 2\n 1 2\n": "empty key",
		"0 2\n": "no records", "a\n": "a word and 0 numbers", "a 1 nan\n": "not finite",
	} {
		_, err := load(t, "x.vec", []byte(text), Options{})
		if err == nil {
			t.Errorf("%q is read", text)
			continue
		}
		if wantFormatError(t, err); !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	// The second line is longer than what detection looks at.
	long := strings.Repeat(" 0.123456", 1000)
	got := mustLoad(t, "x.txt", fmt.Appendf(nil, "2 1000\na%s\nb%s\n", long, long), Options{})
	if got2 := mustLoad(t, "x.txt", fmt.Appendf(nil, "a%s\nb%s\n", long, long), Options{}); len(got) != 2 || len(got2) != 2 {
		t.Errorf("%d and %d rows", len(got), len(got2))
	}
	// Lists of numbers in one column stay what they were.
	compare(t, mustLoad(t, "x", []byte("2 1\n3 4\n"), Options{}), numbered([]float32{2, 1}, []float32{3, 4}))
}

// TestTextsInAnotherEncoding: Latin-1 is refused, with the remedy, in a format that was detected.
func TestTextsInAnotherEncoding(t *testing.T) {
	for name, text := range map[string]string{
		"x.csv": "key,v\na,1\nb\xf6s,2\n", "x": "key,v\nb\xf6s,2\n", "h.csv": "key,gr\xf6\xdfe\na,1\n", "x.svm": "b\xf6s 1:1\n",
		"x.arff": "@relation x\n@attribute gr\xf6\xdfe numeric\n@data\n1\n", "x.vec": "a 1\nb\xf6s 2\n",
	} {
		_, err := load(t, name, []byte(text), Options{})
		if wantFormatError(t, err); !strings.Contains(err.Error(), "iconv") {
			t.Errorf("%s: %v", name, err)
		}
	}
	got := mustLoad(t, "x.csv", []byte("key,v\nb\xf6s,2\n"), Options{Format: FormatCSV})
	compare(t, got, []Record{{Key: []byte("b\xf6s"), Vector: []float32{2}}})
	comment := "% by M\xfcller\n@relation x\n@attribute a numeric\n@data\n% \xfc\n1\n"
	compare(t, mustLoad(t, "x.arff", []byte(comment), Options{}), []Record{record("0", "", 0, 1)})
}
