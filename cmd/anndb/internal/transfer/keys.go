package transfer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
)

// newKeys makes the keys of imported rows.
type newKeys struct {
	prefix string
	first  uint64 // number of the first record in a file without keys
	// taken has the keys that no other row may have, where rows of a repeated key are left out; else nil.
	taken map[string]bool
}

// newKeys is how the import makes keys. Those of a file without keys continue after
// the numbers that the collection has, unless rows are to be replaced.
func (c *Import) newKeys(a *command.App, info *db.CollectionInfo) (newKeys, error) {
	k := newKeys{prefix: c.KeyPrefix}
	if c.SkipInvalid && !c.Replace && !c.Update {
		k.taken = map[string]bool{}
	}
	if info == nil || c.Replace || c.Resume || c.Update {
		return k, nil
	}
	err := command.InFile{File: c.File}.WithSnapshot(a, func(s *db.Snapshot) error {
		for key, err := range s.Collection(c.Collection).Keys([]byte(c.KeyPrefix), nil) {
			if err != nil {
				return err
			}
			text := strings.TrimPrefix(string(key), c.KeyPrefix)
			n, err := strconv.ParseUint(text, 10, 62)
			if err == nil && strconv.FormatUint(n, 10) == text {
				k.first = max(k.first, n+1)
			}
			if k.taken != nil {
				k.taken[string(key)] = true
			}
		}
		return nil
	})
	return k, err
}

// of is the key of a record.
func (k newKeys) of(key []byte, keyed bool) []byte {
	if n, err := strconv.ParseUint(string(key), 10, 62); !keyed && err == nil {
		return strconv.AppendUint([]byte(k.prefix), k.first+n, 10)
	}
	return append([]byte(k.prefix), key...)
}

// once refuses a key that another row has.
func (k newKeys) once(key []byte) error {
	if k.taken == nil {
		return nil
	}
	if k.taken[string(key)] {
		return fmt.Errorf("another row has the key %q", key)
	}
	k.taken[string(key)] = true
	return nil
}

// failed is the error of an import that wrote n rows.
func (c *Import) failed(n int, err error) error {
	if !c.Replace && errors.Is(err, db.ErrExists) {
		err = fmt.Errorf("%w (--replace replaces rows of the same key, --key-prefix keeps both, "+
			"--resume continues after an interruption)", err)
	}
	if n > 0 && errors.As(err, new(*input.EmbedError)) {
		err = fmt.Errorf("%w (--resume continues behind them)", err)
	}
	return fmt.Errorf("import %s after %d rows: %w", c.Input, n, c.readAs(err))
}

// nothing is the error of a file without a record that can be imported.
func (c *Import) nothing(in *input.File) error {
	what := "no records"
	if c.SkipInvalid {
		what = "no records that can be imported"
	}
	if in.Format == dataset.FormatCSV || in.Format == dataset.FormatTSV {
		what += " besides a line of names"
	}
	return command.BadInput("%s holds %s (read as %s)", c.Input, what, in.Format)
}

// remedies are what users can do about errors of files.
var remedies = []struct {
	of     error
	remedy string
}{
	{dataset.ErrNoLabels, "name the XML file with --labels-xml, or the attributes with --label-column, " +
		"or import with --no-labels"},
	{dataset.ErrVector, "name it with --vector-column"},
	{dataset.ErrText, "name it with --text"},
	{dataset.ErrColumn, "--text, --attribute, --label-column, --payload-column or --ignore-column names it"},
	{dataset.ErrMember, "choose one with --member"},
	{dataset.ErrDim, "--dim says it"},
}

// readAs adds the remedy to the error of a file's content, and which format was detected.
func (c *Import) readAs(err error) error {
	for _, x := range remedies {
		if errors.Is(err, x.of) {
			return fmt.Errorf("%w (%s)", err, x.remedy)
		}
	}
	f := (*dataset.FormatError)(nil)
	if !errors.As(err, &f) {
		return err
	}
	var hints []string
	if c.As == "" && f.Format != "" && f.Format != dataset.FormatFolder {
		hints = append(hints, fmt.Sprintf("read as %s: --as names another format", f.Format))
	}
	// A first line that is neither names nor numbers is that of another kind of file.
	prose := f.Line == 1 && (f.Format == dataset.FormatCSV || f.Format == dataset.FormatTSV)
	if f.Skippable && !prose && !c.SkipInvalid {
		hints = append(hints, "--skip-invalid leaves such records out")
	}
	if len(hints) > 0 {
		err = fmt.Errorf("%w (%s)", err, strings.Join(hints, "; "))
	}
	return err
}
