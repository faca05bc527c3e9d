package dataset

import (
	"archive/zip"
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// zipMagic begins a zip archive that is not empty.
const zipMagic = "PK\x03\x04"

// errSeek is the error of formats that are read at many places of the file.
var errSeek = errors.New("files of this format are not read through a pipe or a compression: " +
	"save it as a plain file")

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
	var names []string
	for _, f := range archive.File {
		if name, ok := strings.CutSuffix(f.Name, ".npy"); ok && files[name] == nil {
			files[name], names = f, append(names, name)
		}
	}
	name, err := o.member(names, names)
	if err != nil {
		return nil, s.bad(-1, 0, err)
	}
	f := files[name]
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
	dec, err := openNPY(inner, o)
	if err != nil {
		return nil, err
	}
	return memberDecoder{dec, name}, nil
}

// member chooses one of several arrays. all are the names that Options.Member may give, vectors those of
// arrays that can be records.
func (o Options) member(all, vectors []string) (string, error) {
	usual := "train"
	if o.Queries {
		usual = "test"
	}
	name := strings.Trim(o.Member, "/")
	switch {
	case name != "" && slices.Contains(all, name):
		return name, nil
	case name != "":
		return "", fmt.Errorf("%w There is no %.60q, only %s", ErrMember, o.Member, listed(all))
	case len(vectors) == 0:
		return "", errors.New("no array of numbers with rows and columns")
	case len(vectors) == 1:
		return vectors[0], nil
	case slices.Contains(vectors, usual):
		return usual, nil
	}
	return "", fmt.Errorf("%w The file has %s", ErrMember, listed(vectors))
}

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
