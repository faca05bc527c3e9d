package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkText refuses a text that is not UTF-8.
func checkText(text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	for i, r := range text {
		if _, n := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && n == 1 {
			return fmt.Errorf("the text is not UTF-8, byte %d of it is 0x%02x: "+
				"convert the file (iconv -f latin1 -t utf-8)", i, text[i])
		}
	}
	return nil
}

// textLines reads a text a line.
type textLines struct{}

func openTextLines(s *source, _ Options) (decoder, error) {
	return &lineDecoder{rowDecoder: textLines{}, lines: newLines(s)}, nil
}

func (textLines) schema() Schema    { return Schema{Kind: Text, Base: BaseZero, Records: -1} }
func (textLines) end(n int64) error { return someRecords(n) }

func (textLines) decode(rec *Record, line []byte) (bool, error) {
	if line = trimLineEnd(line); len(bytes.TrimSpace(line)) == 0 {
		return false, nil
	}
	rec.Text = string(line)
	return true, checkText(rec.Text)
}

// isProse reports whether a text has words and hardly any numbers.
func isProse(text []byte) bool {
	letters, digits, blanks := 0, 0, 0
	for _, r := range string(text) {
		switch {
		case unicode.IsLetter(r):
			letters++
		case unicode.IsDigit(r):
			digits++
		case r == ' ':
			blanks++
		}
	}
	return blanks > 0 && letters > 10*digits
}

// folder reads the files of a folder and of those in it, each as a text.
type folder struct {
	src    *source
	names  []string // paths in the folder, with slashes
	labels bool
	file   string // read last
}

// folderSource is the source of a folder, which has no content of its own.
func folderSource(ctx context.Context, path string) *source {
	s := &source{ctx: ctx, path: path, size: -1, folder: true}
	s.read(strings.NewReader(""))
	return s
}

// openFolder lists the files. Hidden ones, and those that are no regular files, are left out.
func openFolder(s *source, o Options) (decoder, error) {
	if !s.folder {
		return nil, fmt.Errorf("dataset: %w: %s is not a folder", ErrOption, s.path)
	}
	var list nameList
	err := fs.WalkDir(os.DirFS(s.path), ".", func(name string, d fs.DirEntry, err error) error {
		switch hidden := name != "." && strings.HasPrefix(d.Name(), "."); {
		case err != nil:
			return err
		case s.ctx.Err() != nil:
			return interrupted{context.Cause(s.ctx)}
		case hidden && d.IsDir():
			return fs.SkipDir
		case hidden || !d.Type().IsRegular():
			return nil
		}
		return list.add(name)
	})
	switch {
	case isSystem(err):
		return nil, fmt.Errorf("dataset: read folder %s: %w", s.path, err)
	case err != nil:
		return nil, s.bad(-1, -1, err)
	case len(list.names) == 0:
		return nil, s.bad(-1, -1, errors.New("the folder has no files"))
	}
	return &folder{src: s, names: list.names, labels: o.FolderLabels}, nil
}

func (d *folder) schema() Schema {
	return Schema{Kind: Text, Base: BaseZero, Records: int64(len(d.names)), Keyed: true}
}

func (d *folder) next(rec *Record, n int64) error {
	if n == int64(len(d.names)) {
		return io.EOF
	}
	name := d.names[n]
	d.file = filepath.Join(d.src.path, filepath.FromSlash(name))
	rec.Key = append(rec.Key[:0], name...)
	if in := path.Dir(name); d.labels && in != "." {
		rec.Labels = append(rec.Labels, in)
	}
	var err error
	rec.Text, err = d.read()
	if err == nil || isSystem(err) {
		return err
	}
	if f, ok := errors.AsType[*FormatError](err); ok {
		err = f.Err
	}
	return &FormatError{
		Path: d.file, Format: d.src.format, Record: n, Offset: -1, Err: err, Skippable: true,
	}
}

// read returns the content of the file.
func (d *folder) read() (string, error) {
	in, err := openSource(d.src.ctx, d.file)
	if err != nil {
		return "", err
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in.br, maxTextRecord+1))
	if err != nil {
		return "", in.fail(-1, err)
	}
	if len(b) > maxTextRecord {
		return "", errTooLong
	}
	text := string(bytes.TrimPrefix(b, []byte(byteOrderMark)))
	return text, checkText(text)
}
