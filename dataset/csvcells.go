package dataset

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
)

// errReturn is the error of line ends that are carriage returns alone.
var errReturn = errors.New("a carriage return inside a line: convert the line ends (tr '\\r' '\\n')")

// cells cuts lines into cells, with the quotes of RFC 4180: a cell in quotes may have separators, doubled
// quotes and several lines.
type cells struct {
	lines *lines
	sep   []byte
	most  int    // most cells of a row
	first int    // cells of the first row; 0 before it
	line  int64  // the number of the row's first line
	size  int    // bytes of the row
	bad   error  // its encoding
	buf   []byte // the texts of the cells
	ends  []int  // where each of them ends in buf
	row   []string
}

// next returns the cells of a row, which hold until the next call. After an error that is no *FormatError
// and not of the system, the row after it can be read. Lines without a character are no rows.
func (c *cells) next(record int64) ([]string, error) {
	line, err := c.lines.next(record)
	for err == nil && len(trimLineEnd(line)) == 0 {
		line, err = c.lines.next(record)
	}
	if err != nil {
		return nil, err
	}
	c.line, c.size, c.bad = c.lines.n, len(line), c.lines.src.encoded(line)
	err = c.split(record, line)
	c.lines.src.line = c.line
	if err == nil {
		err = c.bad
	}
	if err != nil {
		return nil, err
	}
	if n := len(c.ends); c.first == 0 {
		c.first = n
	} else if n != c.first {
		return nil, fmt.Errorf("%d fields, the lines before have %d: %w", n, c.first, csv.ErrFieldCount)
	}
	text, start := string(c.buf), 0 // one allocation for all
	c.row = c.row[:0]
	for _, end := range c.ends {
		c.row = append(c.row, text[start:end])
		start = end
	}
	return c.row, nil
}

// split fills buf and ends.
func (c *cells) split(record int64, line []byte) error {
	c.buf, c.ends = c.buf[:0], c.ends[:0]
	for rest, more := trimLineEnd(line), true; more; {
		if len(c.ends) == c.most {
			return fmt.Errorf("more than %d columns", c.most)
		}
		var err error
		if len(rest) > 0 && rest[0] == '"' {
			rest, more, err = c.quoted(record, rest[1:])
		} else {
			rest, more, err = c.plain(rest)
		}
		if err != nil {
			if isFinal(err) {
				return err
			}
			return fmt.Errorf("column %d: %w", len(c.ends)+1, err)
		}
		c.ends = append(c.ends, len(c.buf))
	}
	return nil
}

// isFinal reports whether nothing can be read behind an error: those of one record have no place yet.
func isFinal(err error) bool {
	f := (*FormatError)(nil)
	return err == io.EOF || errors.As(err, &f) || isSystem(err)
}

// plain takes a cell without quotes.
func (c *cells) plain(text []byte) (rest []byte, more bool, err error) {
	cell, rest, more := bytes.Cut(text, c.sep)
	switch {
	case bytes.IndexByte(cell, '"') >= 0:
		err = csv.ErrBareQuote
	case bytes.IndexByte(cell, '\r') >= 0:
		err = errReturn
	}
	c.buf = append(c.buf, cell...)
	return rest, more, err
}

// quoted takes a cell behind its opening quote, which may continue on the following lines.
func (c *cells) quoted(record int64, text []byte) (rest []byte, more bool, err error) {
	for {
		inside, rest, closed := bytes.Cut(text, []byte(`"`))
		c.buf = append(c.buf, inside...)
		switch {
		case !closed:
			if text, err = c.continued(record); err != nil {
				return nil, false, err
			}
		case len(rest) == 0:
			return nil, false, nil
		case rest[0] == '"':
			c.buf = append(c.buf, '"')
			text = rest[1:]
		case bytes.HasPrefix(rest, c.sep):
			return rest[len(c.sep):], true, nil
		default:
			return nil, false, csv.ErrQuote
		}
	}
}

// continued takes the next line into the row.
func (c *cells) continued(record int64) ([]byte, error) {
	line, err := c.lines.next(record)
	if err == io.EOF {
		return nil, csv.ErrQuote
	}
	if err != nil {
		return nil, err
	}
	if c.size += len(line); c.size > maxTextRecord {
		return nil, c.lines.src.badLine(record, c.line, errTooLong)
	}
	if c.bad == nil {
		c.bad = c.lines.src.encoded(line)
	}
	c.buf = append(c.buf, '\n')
	return trimLineEnd(line), nil
}
