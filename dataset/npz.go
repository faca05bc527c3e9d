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

// openNPZ reads one array of a NumPy archive, a zip file of npy files.
func openNPZ(s *source, o Options) (decoder, error) {
	archive, err := zip.NewReader(s.at, s.size)
	if err != nil {
		return nil, s.bad(-1, 0, err)
	}
	var files []*zip.File
	var members []member
	for _, f := range archive.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			continue
		}
		m := member{name: name, rows: true} // unless its header says otherwise
		in, err := openMember(s, f)
		if err == nil {
			var text string
			if _, text, err = npyText(in); err == nil {
				_, err = parseNPYHeader(text, Options{MaxDim: maxMaxDim})
				m.rows = err == nil
			}
			_ = in.Close()
		}
		m.fault = err
		files, members = append(files, f), append(members, m)
	}
	i, err := o.member(members)
	if err != nil {
		return nil, s.bad(-1, 0, err)
	}
	in, err := openMember(s, files[i])
	if err != nil {
		return nil, err
	}
	dec, err := openNPY(in, o)
	return memberDecoder{dec, members[i].name}, err
}

// openMember begins to read a file of an archive.
func openMember(s *source, f *zip.File) (*source, error) {
	in, err := f.Open()
	if err == nil && f.UncompressedSize64 > math.MaxInt64 {
		err = fmt.Errorf("%d bytes", f.UncompressedSize64)
	}
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

// ErrMember is wrapped by the error of a file of several arrays, none of which is the obvious one, and
// of one that does not have the array named by Options.Member.
var ErrMember = errors.New("which array?")

// member is one of the arrays of a file.
type member struct {
	name  string
	rows  bool  // it has rows and columns of numbers, or is damaged so that it may
	fault error // why it cannot be read
}

// answers are the names of arrays that have the answers of queries in the files of ann-benchmarks.
var answers = []string{"neighbors", "distances", "avg_distances"}

// member selects one of several arrays: that of Options.Member; or train, of queries test; or the only
// one that has rows and columns of numbers. If the array cannot be read, no other one takes its place.
func (o Options) member(members []member) (int, error) {
	name := cmp.Or(strings.Trim(o.Member, "/"), "train")
	if o.Member == "" && o.Queries {
		name = "test"
	}
	if i := slices.IndexFunc(members, func(m member) bool { return m.name == name }); i >= 0 {
		return i, nil
	}
	var all, rows []string
	found, why := 0, ""
	for i, m := range members {
		all = append(all, m.name)
		if m.rows {
			found, rows = i, append(rows, m.name)
		}
		if m.fault != nil && strings.Count(why, "; ") < shownMembers {
			why += fmt.Sprintf("; %.60q cannot be read: %v", m.name, m.fault)
		}
	}
	switch {
	case o.Member != "":
		return 0, fmt.Errorf("%w There is no %.60q, only %s", ErrMember, o.Member, listed(all))
	case len(rows) == 0:
		return 0, fmt.Errorf("no array has rows and columns of numbers; the file has %s%s", listed(all), why)
	case len(rows) == 1 && !slices.Contains(answers, path.Base(rows[0])):
		return found, nil
	}
	return 0, fmt.Errorf("%w The file has %s%s", ErrMember, listed(rows), why)
}

// shownMembers is the number of arrays for which an error has the reason why they cannot be read.
const shownMembers = 4

// listed joins names, of many the first ones.
func listed(names []string) string {
	const most = 12
	var quoted []string
	for _, name := range names[:min(len(names), most)] {
		quoted = append(quoted, fmt.Sprintf("%.60q", name))
	}
	text := strings.Join(quoted, ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return cmp.Or(text, "none")
}
