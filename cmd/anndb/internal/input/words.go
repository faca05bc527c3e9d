package input

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// QueryFlags are the queries to a collection.
type QueryFlags struct {
	Words []string `arg:"" optional:"" name:"query"`

	Vector    string `placeholder:"X,…|FILE"`
	FileFlags `embed:"" group:"Files of queries:"`
}

// AfterApply resolves the words that name a file.
func (f *QueryFlags) AfterApply(p *command.Program) error {
	resolve := func(word *string) {
		if path := p.Host.Resolve(*word); maybeFile(*word) && isFile(path) {
			*word = path
		}
	}
	if resolve(&f.Vector); len(f.Words) == 1 {
		resolve(&f.Words[0])
	}
	return nil
}

// asked are the queries of a command, one after the other, and how many there are; 0
// where that is not known. Vectors and Texts report which parts they have in collections of texts.
type asked struct {
	Each           iter.Seq2[Query, error]
	Total          int
	Close          func() error
	Vectors, Texts bool
}

// Ask opens the queries.
func (f QueryFlags) Ask(a *command.App, s *db.Snapshot, info db.CollectionInfo) (*asked, error) {
	file := f.file()
	switch {
	case f.Text != "" && file == "":
		return nil, command.Usagef("--text names the column of a file of queries: " +
			"give the text itself as the query")
	case len(f.Words) == 0 && f.Vector == "":
		return nil, command.Usagef("no query: give a text, a vector, like KEY, a file or words")
	case len(f.Words) > 1 && slices.Contains(f.Words, "where") && f.key() == "": // as in scripts
		return nil, command.Usagef("a filter is written --where 'FILTER', " +
			"and a query with the word where in quotes")
	case f.Vector != "" && info.Dim == 0:
		return nil, command.Usagef("--vector is for vectors, and %q is %s", info.Name, command.KindOf(info))
	case f.Vector != "" && len(f.Words) > 0 && (info.Text == nil || f.key() != ""):
		return nil, command.Usagef("the query %q and --vector exclude each other", strings.Join(f.Words, " "))
	case f.Vector != "" && file != "" && !isFile(f.Vector):
		return nil, command.Usagef("--vector next to the file of queries %s names a file of vectors, as many "+
			"as there are queries", file)
	}
	if file != "" {
		to := TargetOf(a, &info)
		in, err := Source{Path: file, Vectors: f.Vector, Flags: f.FileFlags, Kind: to.kind(), To: to}.Open()
		if err != nil {
			return nil, err
		}
		return &asked{in.queries(), int(max(0, in.Records)), in.Close, in.Dim > 0, in.Kind == dataset.Text}, nil
	}
	if flags := f.FileFlags; !reflect.DeepEqual(flags, FileFlags{
		LabelSeparator: "|", Header: "auto", Limit: flags.Limit, SparseFlags: SparseFlags{Base: flags.Base},
	}) {
		return nil, command.Usagef("the flags for files of queries go with a file, and the query is none")
	}
	q, err := f.one(a, s, info)
	key := q.Query.Key != nil
	if err == nil && info.Text != nil && len(f.Words) > 0 && !key {
		err = checkQuery(q.Query.Text, info)
	}
	if err != nil {
		return nil, err
	}
	return &asked{
		Each:  func(yield func(Query, error) bool) { yield(q, nil) },
		Total: 1, Close: func() error { return nil },
		Vectors: q.Query.Vector != nil || key && info.Dim > 0, Texts: q.Query.Text != "" || key && info.Text != nil,
	}, nil
}

// one is the query that the words and the flag give without a file.
func (f QueryFlags) one(a *command.App, s *db.Snapshot, info db.CollectionInfo) (q Query, err error) {
	if key := f.key(); key != "" {
		row, err := s.Collection(info.Name).Get([]byte(key))
		return Query{key, db.Query{Key: row.Key}, row.Labels}, err
	}
	base, err := TargetOf(a, &info).base(f.Base)
	if err != nil {
		return q, err
	}
	words := strings.Join(f.Words, " ")
	q.Key = cmp.Or(words, "vector")
	switch {
	case f.Vector == "" && info.Text == nil:
		q.Query, err = Literal(f.Words, info, first(base))
		if err != nil && !info.Sparse && maybeFile(words) && !strings.ContainsAny(words, ", [") {
			err = command.Usagef("%q is neither a file nor a vector", words)
		}
		return q, err
	case f.Vector != "":
		q.Query.Vector, err = f.vector(a, info)
	}
	q.Query.Text = words
	return q, err
}

// vector is the vector of the flag: numbers, or the only one of a file.
func (f QueryFlags) vector(a *command.App, info db.CollectionInfo) ([]float32, error) {
	if !isFile(f.Vector) {
		return VectorOf(f.Vector, info)
	}
	in, err := dataset.Open(f.Vector, dataset.Options{Context: a.Ctx, Kind: dataset.Dense, Queries: true})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var rec, more dataset.Record
	if err := in.Read(&rec); err != nil {
		return nil, err
	}
	if n := len(rec.Vector); n != info.Dim {
		return nil, command.BadInput("the vector of %s has %d numbers, those of collection %q have %s",
			f.Vector, n, info.Name, dimOf(info))
	}
	if err := in.Read(&more); err != io.EOF {
		return nil, cmp.Or(err, command.Usagef("%s holds several vectors, and the query takes one", f.Vector))
	}
	return rec.Vector, nil
}

// key is the key behind the word like; empty if there is none.
func (f QueryFlags) key() string {
	if w := f.Words; len(w) == 2 && w[0] == "like" {
		return w[1]
	}
	return ""
}

// file is the word that names a file of queries; empty if there is none.
func (f QueryFlags) file() string {
	if w := f.Words; len(w) == 1 && (w[0] == command.Standard || isFile(w[0])) {
		return w[0]
	}
	return ""
}

// isFile reports whether a word names a file. One without a dot or slash is a word.
func isFile(word string) bool {
	info, err := os.Stat(word)
	return err == nil && !info.IsDir() && maybeFile(word)
}

// maybeFile reports whether a word may name a file.
func maybeFile(word string) bool { return strings.ContainsAny(word, `./\`) }

// Mistaken refuses a query of one word that may name a file, if it names neither a file nor a feature,
// and a text as the query of a collection that has none.
func (f QueryFlags) Mistaken(u *UnknownFeatures, info db.CollectionInfo) error {
	if len(f.Words) == 1 && maybeFile(f.Words[0]) && !isFile(f.Words[0]) &&
		(u.unknown[f.Words[0]] || info.Text != nil && len(u.unknown) == len(u.all)) {
		return fmt.Errorf("%q names neither a file nor a %s of a row", f.Words[0], u.what)
	}
	for _, w := range f.Words {
		if info.Text == nil && info.Named && strings.ContainsFunc(w, unicode.IsSpace) && u.unknown[w] {
			return command.Usagef("%q is no feature of a row, and collection %q has features and no texts: "+
				"give its words one by one, or make a collection of texts (import --text)", w, info.Name)
		}
	}
	return nil
}

// Literal reads the vector or the features that words are, as the collection has them. first is
// the number of its first feature.
func Literal(words []string, info db.CollectionInfo, first uint32) (q db.Query, err error) {
	if info.Sparse {
		return parseFeatures(words, info, first)
	}
	text := strings.Join(words, " ")
	if len(strings.Fields(text)) > 1 && !strings.ContainsFunc(text, unicode.IsDigit) {
		return q, command.Usagef("%.40q is no vector, and collection %q has vectors and no texts "+
			"(import --text makes a collection of texts)", text, info.Name)
	}
	q.Vector, err = VectorOf(text, info)
	return q, err
}

// VectorOf reads a vector as the collection has them.
func VectorOf(text string, info db.CollectionInfo) ([]float32, error) {
	v, err := parseVector(text)
	if n := len(v); err == nil && n != info.Dim {
		return nil, command.Usagef("the vector has %d numbers, those of collection %q have %s",
			n, info.Name, dimOf(info))
	}
	return v, err
}

// dimOf is the number of coordinates of a collection, with the model that makes them.
func dimOf(info db.CollectionInfo) string {
	if model := info.Meta["model"]; model != "" {
		return fmt.Sprintf("%d, of model %q", info.Dim, model)
	}
	return strconv.Itoa(info.Dim)
}

// parseVector reads numbers with commas or blanks between, perhaps in brackets.
func parseVector(text string) ([]float32, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "[") {
		if !strings.HasSuffix(text, "]") {
			return nil, command.Usagef("the vector %.40q ends without ]", text)
		}
		text = text[1 : len(text)-1]
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	v := make([]float32, len(words))
	for i, w := range words {
		f, err := strconv.ParseFloat(w, 32)
		if errors.Is(err, strconv.ErrRange) {
			return nil, command.Usagef("the vector has %s, which is out of the range of float32", w)
		}
		if err != nil {
			return nil, command.Usagef("the vector has %q, which is not a number", w)
		}
		v[i] = float32(f)
	}
	return v, nil
}

// parseFeatures reads features with their values. A feature alone has the value one; the last =
// counts, since names may have one. first is the number of the first feature.
func parseFeatures(words []string, info db.CollectionInfo, first uint32) (db.Query, error) {
	var q db.Query
	values := map[uint32]float32{}
	for _, part := range words {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value := part, float32(1)
		if i := strings.LastIndexByte(part, '='); i >= 0 {
			v, err := strconv.ParseFloat(part[i+1:], 32)
			switch {
			case errors.Is(err, strconv.ErrRange):
				return q, command.Usagef("feature %s has the value %s, which is out of the range of float32",
					part[:i], part[i+1:])
			case err != nil:
				return q, command.Usagef("feature %s has the value %q, which is not a number", part[:i], part[i+1:])
			case !(v >= 0) || math.IsInf(v, 0):
				return q, command.Usagef("feature %s has the value %s: sparse values must be finite and not negative",
					part[:i], part[i+1:])
			}
			name, value = part[:i], float32(v)
		}
		if info.Named {
			q.Features = append(q.Features, vector.Feature{Name: name, Value: value})
			continue
		}
		n, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			return q, command.Usagef("feature %q is no number, and the collection's features have no names", name)
		}
		if uint32(n) < first {
			return q, command.Usagef("there is no feature %d: collection %q counts features from %d",
				n, info.Name, first)
		}
		feature := uint32(n) - first
		if _, twice := values[feature]; twice {
			return q, command.Usagef("feature %d is given twice", n)
		}
		values[feature] = value
		q.Sparse.Index = append(q.Sparse.Index, feature)
	}
	slices.Sort(q.Sparse.Index)
	for _, n := range q.Sparse.Index {
		q.Sparse.Value = append(q.Sparse.Value, values[n])
	}
	if len(q.Features) == 0 && q.Sparse.Len() == 0 {
		return q, command.Usagef("no feature is named")
	}
	return q, nil
}
