package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// number reports whether a cell is a number, finite or not.
func number(cell string) bool {
	_, err := strconv.ParseFloat(strings.TrimSpace(cell), 32)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// namedColumns returns the names of columns other than vectors that the options have; some may be empty.
func (o Options) namedColumns() []string {
	named := slices.Concat([]string{o.TextColumn, o.KeyColumn, o.PayloadColumn, o.ExpiryColumn}, o.LabelColumns,
		o.IgnoreColumns)
	for _, a := range o.Attributes {
		named = append(named, a.Name)
	}
	return named
}

// hasHeader decides whether first is a header, see the package documentation.
func hasHeader(first []string, second row, o Options) bool {
	if o.Header != HeaderAuto {
		return o.Header == HeaderPresent
	}
	named := o.namedColumns()
	if o.vectorNamed {
		named = append(named, o.VectorField)
	}
	numbers, typed := 0, false
	for i, cell := range first {
		if isRoleName(cell) {
			return true
		}
		if _, ok := typedName(cell); ok {
			typed = true
		}
		if number(cell) || isList(cell) {
			numbers++
			continue
		}
		if cell != "" && slices.Contains(named, cell) {
			return true
		}
		if second.err == nil && (number(second.fields[i]) || isList(second.fields[i])) {
			return true
		}
	}
	return (typed || second.err == io.EOF) && numbers == 0
}

func isRoleName(cell string) bool {
	switch strings.ToLower(cell) {
	case "key", "id", defaultText, "label", "labels", "payload", defaultExpiry:
		return true
	}
	return false
}

// roles gives every one of n columns its part.
func (d *delimited) roles(o Options, n int) error {
	taken := make([]bool, n)
	take := func(spec string) (int, error) {
		c, err := d.column(spec, n)
		if err != nil {
			return -1, err
		}
		if taken[c] {
			return -1, fmt.Errorf("column %d has two parts to play", c+1)
		}
		taken[c] = true
		return c, nil
	}
	// What is named goes first, so that a default never claims it.
	if err := d.namedRoles(o, take); err != nil {
		return err
	}
	d.headerRoles(o, taken)
	for c := range taken {
		if !taken[c] {
			d.vector = append(d.vector, c)
		}
	}
	return nil
}

// namedRoles takes the columns that the options name.
func (d *delimited) namedRoles(o Options, take func(spec string) (int, error)) error {
	for _, spec := range o.IgnoreColumns {
		if _, err := take(spec); err != nil {
			return err
		}
	}
	for _, spec := range o.LabelColumns {
		c, err := take(spec)
		if err != nil {
			return err
		}
		d.labels = append(d.labels, c)
	}
	for _, a := range o.Attributes {
		c, err := take(a.Name)
		if err != nil {
			return err
		}
		if d.names == nil {
			return fmt.Errorf("column %d has no name for an attribute: the file needs a header", c+1)
		}
		found := Attribute{d.names[c], a.Type}
		if h, ok := typedName(found.Name); ok {
			found = Attribute{h.Name, cmp.Or(a.Type, h.Type)}
		}
		d.typed = append(d.typed, attributeColumn{c, found})
	}
	for _, role := range []struct {
		spec   string
		column *int
	}{
		{o.TextColumn, &d.texts}, {o.PayloadColumn, &d.payload}, {o.KeyColumn, &d.key},
		{o.ExpiryColumn, &d.expires},
	} {
		if role.spec == "" {
			continue
		}
		var err error
		if *role.column, err = take(role.spec); err != nil {
			return err
		}
	}
	return nil
}

// headerRoles takes the columns whose role is in the header.
func (d *delimited) headerRoles(o Options, taken []bool) {
	for c, name := range d.names {
		if taken[c] {
			continue
		}
		if a, ok := typedName(name); ok {
			d.typed = append(d.typed, attributeColumn{c, a})
			taken[c] = true
			continue
		}
		if !isRoleName(name) {
			continue
		}
		switch name = strings.ToLower(name); {
		case name == "payload" && o.PayloadColumn == "" && d.payload < 0:
			d.payload = c
		case (name == "key" || name == "id") && o.KeyColumn == "" && d.key < 0:
			d.key = c
		case name == defaultExpiry && o.ExpiryColumn == "" && d.expires < 0:
			d.expires = c
		case strings.HasPrefix(name, "label") && o.LabelColumns == nil:
			d.labels = append(d.labels, c)
		default:
			continue
		}
		taken[c] = true
	}
}

// column finds a column by its name, with or without a type, or else by its position from 1.
func (d *delimited) column(spec string, n int) (int, error) {
	for _, nameOf := range []func(string) string{untouched, untyped} {
		found := -1
		for c, name := range d.names {
			if nameOf(name) != spec {
				continue
			}
			if found >= 0 {
				return -1, fmt.Errorf("columns %d and %d are both named %q", found+1, c+1, spec)
			}
			found = c
		}
		if found >= 0 {
			return found, nil
		}
	}
	if c, err := strconv.Atoi(spec); err == nil && c >= 1 && c <= n {
		return c - 1, nil
	}
	return -1, fmt.Errorf("no column %q among %d", spec, n)
}

func untouched(name string) string { return name }

// untyped returns the name of a column without its type.
func untyped(name string) string {
	a, _ := typedName(name)
	return a.Name
}
