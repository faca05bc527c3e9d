package dataset

import (
	"cmp"
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

// maxXML bounds the size of a Mulan file.
const maxXML = 8 << 20

// labelXML is a label of a Mulan file, with those inside of it, or the list of all.
type labelXML struct {
	Name   string     `xml:"name,attr"`
	Labels []labelXML `xml:"label"`
}

func parseLabelsXML(s *source) ([]string, error) {
	text, err := io.ReadAll(io.LimitReader(s.br, maxXML+1))
	switch {
	case err != nil:
		return nil, s.failLine(-1, 1, err)
	case len(text) > maxXML:
		return nil, s.badLine(-1, 1, fmt.Errorf("more than %d bytes", maxXML))
	}
	var root labelXML
	var list nameList
	if err = xml.Unmarshal(text, &root); err == nil {
		err = root.add(&list, map[string]bool{})
	}
	line := 1
	if syntax, ok := errors.AsType[*xml.SyntaxError](err); ok {
		line = syntax.Line
	} else if err == nil && len(list.names) == 0 {
		err = errors.New("no labels")
	}
	if err != nil {
		return nil, s.badLine(-1, int64(line), err)
	}
	return list.names, nil
}

// add adds the names of the labels in l, whose depth package xml bounds.
func (l labelXML) add(list *nameList, seen map[string]bool) error {
	for _, label := range l.Labels {
		switch {
		case label.Name == "":
			return errors.New("a label without a name")
		case seen[label.Name]:
			return fmt.Errorf("label %.40q is given twice", label.Name)
		}
		seen[label.Name] = true
		if err := cmp.Or(list.add(label.Name), label.add(list, seen)); err != nil {
			return err
		}
	}
	return nil
}
