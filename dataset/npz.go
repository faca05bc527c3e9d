package dataset

import (
	"archive/zip"
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
)

// zipMagic begins a zip archive that is not empty.
const zipMagic = "PK\x03\x04"

// errSeek is the error of formats that are read at many places of the file.
var errSeek = errors.New("files of this format are not read through a pipe or a compression: " +
	"save it as a plain file")

var errSciPy = errors.New("a sparse matrix of SciPy, which is not read: " +
	"save it as a libsvm file by sklearn.datasets.dump_svmlight_file")

// ErrMember is wrapped by the error of a file of several arrays, none of which is the obvious one, and
// of one that does not have the array named by Options.Member.
var ErrMember = errors.New("which array?")

// openNPZ reads one array of a NumPy archive, a zip file of npy files.
func openNPZ(s *source, o Options) (decoder, error) {
	archive, err := zip.NewReader(s.at, s.size)
	if err != nil {
		return nil, s.bad(-1, 0, err)
	}
	files := map[string]*zip.File{}
	var members []member
	for _, f := range archive.File {
		if name, ok := strings.CutSuffix(f.Name, ".npy"); ok && files[name] == nil {
			files[name] = f
			members = append(members, member{name, func() (bool, error) { return mayBeRows(s, f) }})
		}
	}
	name, err := o.member(members)
	if err != nil && o.Member == "" && files["indptr"] != nil && files["indices"] != nil {
		err = errSciPy
	}
	if err != nil {
		return nil, s.bad(-1, 0, err)
	}
	f := files[name]
	inner, err := openMember(s, f)
	if err != nil {
		return nil, err
	}
	dec, err := openNPY(inner, o)
	if err != nil {
		return nil, err
	}
	return memberDecoder{dec, name}, nil
}

// openMember begins to read a file of an archive.
func openMember(s *source, f *zip.File) (*source, error) {
	if f.UncompressedSize64 > math.MaxInt64 {
		return nil, s.bad(-1, 0, fmt.Errorf("%s: %d bytes", f.Name, f.UncompressedSize64))
	}
	in, err := f.Open()
	if err != nil {
		return nil, s.bad(-1, 0, fmt.Errorf("%s: %w", f.Name, err))
	}
	inner := &source{
		path: s.path + ": " + f.Name, format: s.format, size: int64(f.UncompressedSize64), close: in,
		br: bufio.NewReaderSize(in, bufferSize),
	}
	if offset, err := f.DataOffset(); err == nil && f.Method == zip.Store {
		inner.at = io.NewSectionReader(s.at, offset, inner.size)
	}
	return inner, nil
}

// mayBeRows reports whether a file of an archive is an array of numbers with rows and columns, or damaged
// so that it may be one, and returns the reason why it is none.
func mayBeRows(s *source, f *zip.File) (bool, error) {
	inner, err := openMember(s, f)
	if err != nil {
		return true, err
	}
	defer inner.Close()
	_, text, err := npyText(inner)
	if err != nil {
		return true, err
	}
	h, err := parseNPYHeader(text)
	if err == nil {
		_, err = npyElem(h.descr)
	}
	if err == nil && len(h.shape) < 2 {
		err = fmt.Errorf("%d dimensions", len(h.shape))
	}
	return err == nil, err
}

// member is one of the arrays of a file.
type member struct {
	name string
	// rows reports whether it has rows and columns of numbers, or is damaged so that it may, and returns
	// the reason why it cannot be read.
	rows func() (bool, error)
}

// answers are the names of arrays that have the answers of queries in the files of ann-benchmarks.
var answers = []string{"neighbors", "distances", "avg_distances"}

// member selects one of several arrays: that of Options.Member; or train, of queries test; or the only
// one that has rows and columns of numbers. If the array cannot be read, no other one takes its place.
func (o Options) member(members []member) (string, error) {
	usual := "train"
	if o.Queries {
		usual = "test"
	}
	name := cmp.Or(strings.Trim(o.Member, "/"), usual)
	var all, rows []string
	for _, m := range members {
		if m.name == name {
			return name, nil
		}
		all = append(all, m.name)
	}
	if o.Member != "" {
		return "", fmt.Errorf("%w There is no %.60q, only %s", ErrMember, o.Member, listed(all))
	}
	var others []string
	for _, m := range members {
		ok, err := m.rows()
		if ok {
			rows = append(rows, m.name)
		}
		if err != nil && len(others) < shownMembers {
			others = append(others, fmt.Sprintf("%.60q cannot be read: %v", m.name, err))
		}
	}
	why := strings.Join(append([]string{""}, others...), "; ")
	switch {
	case len(rows) == 0:
		return "", fmt.Errorf("no array has rows and columns of numbers; the file has %s%s", listed(all), why)
	case len(rows) == 1 && !slices.Contains(answers, path.Base(rows[0])):
		return rows[0], nil
	}
	return "", fmt.Errorf("%w The file has %s%s", ErrMember, listed(rows), why)
}

// shownMembers is the number of arrays for which an error has the reason why they cannot be read.
const shownMembers = 4

// listed joins names, of many the first ones.
func listed(names []string) string {
	const most = 12
	var text strings.Builder
	for i, name := range names[:min(len(names), most)] {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "%.60q", name)
	}
	if len(names) > most {
		fmt.Fprintf(&text, " and %d more", len(names)-most)
	}
	return cmp.Or(text.String(), "none")
}

// memberDecoder names the array that a decoder reads.
type memberDecoder struct {
	decoder
	name string
}

func (m memberDecoder) schema() Schema {
	s := m.decoder.schema()
	s.Member = m.name
	return s
}
