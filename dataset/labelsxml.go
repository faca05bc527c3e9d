package dataset

import (
	"bufio"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// xmlBeside finds the file of label names that belongs to an ARFF file; "" if
// there is none.
func xmlBeside(path string) (string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("dataset: %w", err)
	}
	base, best := filepath.Base(path), ""
	for _, e := range entries {
		stem, ok := strings.CutSuffix(e.Name(), ".xml")
		if ok && !e.IsDir() && strings.HasPrefix(base, stem) && len(stem) >= len(strings.TrimSuffix(best, ".xml")) {
			best = e.Name()
		}
	}
	if best == "" {
		return "", nil
	}
	return filepath.Join(filepath.Dir(path), best), nil
}

// readLabelsXML reads the label names of a Mulan XML file in its order; labels inside labels, a hierarchy,
// come behind their parent. Errors: fs errors as they come, *[FormatError].
func readLabelsXML(ctx context.Context, path string) ([]string, error) {
	s, err := openSource(ctx, path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return parseLabelsXML(s)
}

func parseLabelsXML(s *source) ([]string, error) {
	in := &tokenReader{br: s.br}
	d := xml.NewDecoder(in)
	var list nameList
	depth := 0
	seen := map[string]bool{}
	bad := func(err error) error {
		line, _ := d.InputPos()
		return s.badLine(-1, int64(line), err)
	}
	for {
		in.taken = 0
		token, err := d.Token()
		if err == io.EOF {
			if len(list.names) == 0 {
				return nil, bad(errors.New("no labels"))
			}
			return list.names, nil
		}
		if err != nil {
			if isSystem(err) {
				return nil, fmt.Errorf("dataset: read %s: %w", s.path, err)
			}
			return nil, bad(err)
		}
		if _, ends := token.(xml.EndElement); ends {
			depth--
		}
		start, ok := token.(xml.StartElement)
		if ok {
			depth++
		}
		if depth > maxXMLDepth {
			return nil, bad(fmt.Errorf("more than %d elements inside each other", maxXMLDepth))
		}
		if !ok || start.Name.Local != "label" {
			continue
		}
		name := ""
		for _, attr := range start.Attr {
			if attr.Name.Local == "name" {
				name = attr.Value
			}
		}
		if name == "" {
			return nil, bad(errors.New("a label without a name"))
		}
		if seen[name] {
			return nil, bad(fmt.Errorf("label %.40q is given twice", name))
		}
		seen[name] = true
		if err := list.add(name); err != nil {
			return nil, bad(err)
		}
	}
}

// Limits of a Mulan file.
const (
	maxXMLToken = 1 << 20 // bytes of an element, a text or a comment
	maxXMLDepth = 1 << 10 // elements inside each other
)

// tokenReader bounds the length of a token, which the decoder keeps in memory.
type tokenReader struct {
	br    *bufio.Reader
	taken int // since the token before
}

func (t *tokenReader) ReadByte() (byte, error) {
	if t.taken++; t.taken > maxXMLToken {
		return 0, fmt.Errorf("more than %d bytes in one element", maxXMLToken)
	}
	return t.br.ReadByte()
}

func (t *tokenReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c, err := t.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = c
	return 1, nil
}
