package dataset

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Columns, and fields of JSON objects, that have their part by their name.
const (
	defaultText   = "text"
	defaultExpiry = "expires"
)

// role is what a column of a csv or Parquet file is for.
type role uint8

const (
	noRole role = iota // not known yet
	ignoredRole
	vectorRole
	textRole
	keyRole
	labelRole
	payloadRole
	expiryRole
	attributeRole
)

// roleOf returns the part of a column by its name.
func roleOf(name string) role {
	switch strings.ToLower(name) {
	case "key", "id":
		return keyRole
	case "label", "labels":
		return labelRole
	case "payload":
		return payloadRole
	case defaultText:
		return textRole
	case defaultExpiry:
		return expiryRole
	}
	return noRole
}

// tableColumn is a column of a csv or Parquet file.
type tableColumn struct {
	name string // in the header; empty without one
	role role
	as   Attribute
}

// names are the columns that the options name, with their parts; those of vectors are left out.
func (o Options) names() (columns []tableColumn) {
	for _, list := range []struct {
		role  role
		names []string
	}{
		{ignoredRole, o.IgnoreColumns}, {labelRole, o.LabelColumns}, {textRole, []string{o.TextColumn}},
		{payloadRole, []string{o.PayloadColumn}}, {keyRole, []string{o.KeyColumn}},
		{expiryRole, []string{o.ExpiryColumn}},
	} {
		for _, name := range list.names {
			if name != "" {
				columns = append(columns, tableColumn{name: name, role: list.role})
			}
		}
	}
	for _, a := range o.Attributes {
		columns = append(columns, tableColumn{a.Name, attributeRole, a})
	}
	return columns
}

// name reports whether the options name a column.
func (o Options) name(column string) bool {
	return slices.ContainsFunc(o.names(), func(c tableColumn) bool { return c.name == column })
}

// assign gives columns the parts that the options or their names say; what is named in the options goes
// first, so that a default never claims it. A column named text keeps no part.
func assign(columns []*tableColumn, o Options) error {
	given := map[role]bool{labelRole: o.LabelColumns != nil, textRole: true}
	for _, named := range o.names() {
		i, err := find(columns, named.name)
		if err != nil {
			return err
		}
		c := columns[i]
		if c.role != noRole {
			return fmt.Errorf("column %d has two parts to play", i+1)
		}
		if named.role == attributeRole && c.name == "" {
			return fmt.Errorf("column %d has no name for an attribute: the file needs a header", i+1)
		}
		c.role, c.as = named.role, Attribute{c.name, named.as.Type}
		if typed, ok := typedName(c.name); ok {
			c.as = Attribute{typed.Name, cmp.Or(named.as.Type, typed.Type)}
		}
		given[named.role] = true
	}
	for _, c := range columns {
		typed, ok := typedName(c.name)
		r := roleOf(c.name)
		switch {
		case c.role != noRole:
		case ok:
			c.role, c.as = attributeRole, typed
		case !given[r]:
			c.role = r
			given[r] = r != labelRole
		}
	}
	return nil
}

// find finds a column by its name, with or without a type, or else by its position from 1.
func find(columns []*tableColumn, spec string) (int, error) {
	untouched := func(name string) string { return name }
	untyped := func(name string) string {
		a, _ := typedName(name)
		return a.Name
	}
	for _, nameOf := range []func(string) string{untouched, untyped} {
		found := -1
		for i, c := range columns {
			switch {
			case nameOf(c.name) != spec:
			case found >= 0:
				return -1, fmt.Errorf("columns %d and %d are both named %q", found+1, i+1, spec)
			default:
				found = i
			}
		}
		if found >= 0 {
			return found, nil
		}
	}
	if i, err := strconv.Atoi(spec); err == nil && i >= 1 && i <= len(columns) {
		return i - 1, nil
	}
	return -1, fmt.Errorf("no column %q among %d", spec, len(columns))
}

// put adds a key, a label or a payload to a record.
func (c *tableColumn) put(rec *Record, text string) error {
	switch c.role {
	case keyRole:
		if rec.Key = append(rec.Key[:0], text...); text == "" {
			return errEmptyKey
		}
	case labelRole:
		return rec.addLabel(text)
	case payloadRole:
		rec.Payload = append(rec.Payload, text...)
	}
	return nil
}

// putValue adds an attribute or the expiry to a record; nil is none.
func (c *tableColumn) putValue(rec *Record, v any) error {
	switch {
	case v == nil:
	case c.role == expiryRole:
		rec.ExpiresAt = v.(time.Time)
	default:
		return rec.setAttribute(c.as.Name, v)
	}
	return nil
}
