package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// arff reads attribute files whose attributes are features and labels. Rows
// may be dense or sparse, line by line.
type arff struct {
	attributes []attribute
	features   nameList
	labels     []string
	absent     []int // attributes whose value is not nothing where a sparse row leaves them out
	seen       []int64
	row        int64
	text       []byte // a quoted value without its quotes
	missing    bool   // the last value is a question mark
}

// part is what an attribute is for.
type part uint8

const (
	featureAttribute part = iota // or a label that a row has or has not
	classAttribute               // its value is a label
	ignoredAttribute
)

// attribute is one column. A nominal attribute whose values are not numbers
// becomes one feature for each value, as only so they can be compared.
type attribute struct {
	label   string // "" for features
	feature uint32 // number of the first feature
	values  map[string]float32
	zeroOne bool    // values are 0 and 1
	oneHot  bool    // values holds offsets from feature
	first   float32 // what a sparse row means by leaving the attribute out
	absent  string  // the same of an attribute whose value is a label
	part    part
}

// column is an attribute as declared.
type column struct {
	name    string
	nominal []string // nil: numeric, or another type
	other   string   // a type that is no feature
}

// isARFF reports whether a text that begins with a line is an ARFF file. A comment
// may also begin a text of another name.
func isARFF(line []byte, named *format) bool {
	word, _ := cutField(bytes.TrimSpace(line))
	switch strings.ToLower(string(word)) {
	case "@relation", "@attribute", "@data":
		return true
	}
	return bytes.HasPrefix(line, []byte("%")) && (named == nil || named.sparse)
}

func openARFF(s *source, o Options) (decoder, error) {
	in := newLines(s)
	columns, relation, err := arffHeader(in, min(o.MaxFeatures, maxNames))
	if err != nil {
		return nil, err
	}
	if o.LabelsXML == "" && s.close != nil { // a file, which can have one next to it
		if o.LabelsXML, err = xmlBeside(s.path); err != nil {
			return nil, err
		}
	}
	labels, classes, err := arffLabels(s, o, columns, relation)
	if err != nil {
		return nil, err
	}
	a := &arff{seen: make([]int64, len(columns))}
	a.labels = append(slices.Clip(labels), classNames(columns, classes)...)
	isLabel := make(map[string]bool, len(labels))
	for _, l := range labels {
		isLabel[l] = true
	}
	for _, name := range o.IgnoreColumns {
		if !slices.ContainsFunc(columns, func(c column) bool { return c.name == name }) {
			return nil, in.bad(-1, fmt.Errorf("no attribute %.40q", name))
		}
	}
	for i, c := range columns {
		var at attribute
		switch {
		case slices.Contains(o.IgnoreColumns, c.name):
			at.part = ignoredAttribute
		case slices.Contains(classes, c.name):
			at = a.class(c)
		default:
			at, err = a.attribute(c, isLabel[c.name])
		}
		if err != nil {
			return nil, in.bad(-1, fmt.Errorf("attribute %.40q: %w", c.name, err))
		}
		if len(a.features.names) > o.MaxFeatures {
			return nil, in.bad(-1, fmt.Errorf("more than %d features", o.MaxFeatures))
		}
		if at.first != 0 || at.oneHot || at.part == classAttribute {
			a.absent = append(a.absent, i)
		}
		delete(isLabel, c.name)
		a.attributes = append(a.attributes, at)
	}
	for _, l := range labels {
		if isLabel[l] {
			return nil, in.bad(-1, fmt.Errorf("no attribute is named like the label %.40q of %s", l, o.LabelsXML))
		}
	}
	return &lineDecoder{rowDecoder: a, lines: in}, nil
}

// arffLabels returns the attributes that are labels, each of that a row has or lacks, and those whose
// values are labels. The options decide first, then Mulan's XML file, Meka's -C, an attribute that is named
// class or label, and, as in Weka, the last attribute if it is nominal. A file with other attributes
// that are 0 or 1 is refused if there is no such attribute, or if it is 0 or 1 as well: any of them may
// be labels.
func arffLabels(
	s *source, o Options, columns []column, relation string,
) (labels, classes []string, err error) {
	if o.NoLabels {
		return nil, nil, nil
	}
	for _, name := range o.LabelColumns {
		i := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
		switch {
		case i < 0:
			return nil, nil, s.badLine(-1, 1, fmt.Errorf("no attribute %.40q", name))
		case columns[i].binary():
			labels = append(labels, name)
		default:
			classes = append(classes, name)
		}
	}
	if o.LabelColumns != nil {
		return labels, classes, nil
	}
	if o.LabelsXML != "" {
		labels, err = readLabelsXML(o.Context, o.LabelsXML)
		return labels, nil, err
	}
	if n, ok := mekaLabels(relation); ok {
		if n > len(columns) || -n > len(columns) {
			return nil, nil, s.badLine(-1, 1,
				fmt.Errorf("the relation's name says -C %d, there are %d attributes", n, len(columns)))
		}
		part := columns[:max(n, 0)]
		if n < 0 {
			part = columns[len(columns)+n:]
		}
		for _, c := range part {
			labels = append(labels, c.name)
		}
		return labels, nil, nil
	}
	// A word of a text can be called class, and its column is 0 or 1 like the labels.
	binary, binaryClasses := 0, 0
	for _, c := range columns {
		isClass := c.nominal != nil && (strings.EqualFold(c.name, "class") || strings.EqualFold(c.name, "label"))
		if isClass {
			classes = append(classes, c.name)
		}
		if c.binary() {
			binary++
			if isClass {
				binaryClasses++
			}
		}
	}
	if last := columns[len(columns)-1]; len(classes) == 0 && last.nominal != nil && !last.binary() {
		return nil, []string{last.name}, nil
	}
	if len(classes) == binaryClasses && binary > binaryClasses {
		return nil, nil, s.badLine(-1, 1, ErrNoLabels)
	}
	return nil, classes, nil
}

// binary reports whether the values are 0 and 1, as those of Mulan's labels are.
func (c column) binary() bool {
	other := func(v string) bool { return v != "0" && v != "1" }
	return len(c.nominal) > 0 && !slices.ContainsFunc(c.nominal, other)
}

// classNames returns the values of classes; none where one is no list.
func classNames(columns []column, classes []string) (names []string) {
	given := map[string]bool{"": true}
	for _, c := range columns {
		if !slices.Contains(classes, c.name) {
			continue
		}
		if c.nominal == nil {
			return nil
		}
		for _, v := range c.nominal {
			if !given[v] {
				given[v] = true
				names = append(names, v)
			}
		}
	}
	return names
}

// class makes an attribute whose values are labels.
func (a *arff) class(c column) attribute {
	at := attribute{part: classAttribute}
	if c.nominal != nil {
		at.absent = c.nominal[0]
		at.values = map[string]float32{}
		for _, v := range c.nominal {
			at.values[v] = 0
		}
	}
	return at
}

// attribute adds a column to the features or labels.
func (a *arff) attribute(c column, label bool) (attribute, error) {
	at := attribute{feature: uint32(len(a.features.names)), zeroOne: len(c.nominal) == 2 && c.binary()}
	if c.other != "" {
		return at, fmt.Errorf("it has the type %.40q, and only numbers and lists of values are features "+
			"(leave it out to read the others)", c.other)
	}
	if label {
		at.label = c.name
	}
	numeric := true
	if c.nominal != nil {
		at.values = make(map[string]float32, len(c.nominal))
		for i, text := range c.nominal {
			v, err := parseFinite(text)
			numeric = numeric && err == nil
			at.values[text] = v
			if i == 0 {
				at.first = v
			}
		}
	}
	switch {
	case label && !numeric:
		return at, errors.New("a label's values must be 0 and 1")
	case label:
	case numeric:
		return at, a.features.add(c.name)
	default:
		at.oneHot, at.first = true, 0
		for i, text := range c.nominal {
			at.values[text] = float32(i)
			if err := a.features.add(c.name + "=" + text); err != nil {
				return at, err
			}
		}
	}
	return at, nil
}

func (a *arff) schema() Schema {
	return Schema{
		Kind: Sparse, Dim: len(a.features.names), Base: BaseZero, Labels: len(a.labels), Records: -1,
		FeatureNames: a.features.names, LabelNames: a.labels,
	}
}

func (a *arff) end(int64) error { return nil }

func (a *arff) decode(rec *Record, line []byte) (bool, error) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] == '%' {
		return false, nil
	}
	a.row++
	var err error
	if line[0] == '{' {
		err = a.sparse(rec, line[1:])
	} else {
		err = a.dense(rec, line)
	}
	if err != nil {
		return false, err
	}
	return true, tidy(&rec.Features, 0)
}

// sparse reads "i value, i value}".
func (a *arff) sparse(rec *Record, text []byte) error {
	text = trimBlanks(text)
	for len(text) > 0 && text[0] != '}' {
		digits := 0
		for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
			digits++
		}
		n, ok := parseNumber(text[:digits])
		if !ok {
			return fmt.Errorf("%.40q begins with no attribute number", text)
		}
		if n >= uint64(len(a.attributes)) {
			return fmt.Errorf("attribute %d, there are %d from 0 on", n, len(a.attributes))
		}
		value, rest, err := a.value(trimBlanks(text[digits:]), true)
		if err != nil {
			return fmt.Errorf("attribute %d: %w", n, err)
		}
		if a.seen[n] == a.row {
			return fmt.Errorf("attribute %d %w", n, errRepeatedFeature)
		}
		a.seen[n] = a.row
		if !a.missing { // what a sparse row leaves out may as well be unknown
			if err := a.put(rec, int(n), value); err != nil {
				return err
			}
		}
		text = rest
	}
	if len(text) == 0 {
		return errors.New("no closing brace")
	}
	if text = trimBlanks(text[1:]); len(text) > 0 && text[0] != '%' {
		return fmt.Errorf("%.40q after the row", text)
	}
	for _, i := range a.absent {
		if a.seen[i] == a.row {
			continue
		}
		at := &a.attributes[i]
		if err := a.set(rec, at, at.first); err != nil {
			return err
		}
	}
	return nil
}

// dense reads "value, value".
func (a *arff) dense(rec *Record, text []byte) error {
	for i := range a.attributes {
		if len(text) == 0 || text[0] == '%' {
			return fmt.Errorf("%d values, want %d", i, len(a.attributes))
		}
		value, rest, err := a.value(text, false)
		if err != nil {
			return fmt.Errorf("attribute %d: %w", i, err)
		}
		if err := a.put(rec, i, value); err != nil {
			return err
		}
		text = rest
	}
	if len(text) > 0 && text[0] != '%' {
		return fmt.Errorf("more than %d values", len(a.attributes))
	}
	return nil
}

// value takes a value, quoted or not, and what separates it from the next one: as in Weka, a comma, blanks,
// or both. In braces it may end at the closing one.
func (a *arff) value(text []byte, braces bool) (value, rest []byte, err error) {
	ends := func(c byte) bool { return c == ',' || isBlank(c) || braces && c == '}' }
	if a.missing = false; len(text) > 0 && (text[0] == '\'' || text[0] == '"') {
		if a.text, rest, err = unquote(a.text[:0], text); err != nil {
			return nil, nil, err
		}
		if len(rest) > 0 && !ends(rest[0]) {
			return nil, nil, fmt.Errorf("%.40q after a quoted value", rest)
		}
		value = a.text
	} else {
		end := 0
		for end < len(text) && !ends(text[end]) {
			end++
		}
		if value, rest = text[:end], text[end:]; len(value) == 0 {
			return nil, nil, errors.New("no value")
		}
		a.missing = string(value) == "?"
	}
	if rest = trimBlanks(rest); len(rest) > 0 && rest[0] == ',' {
		rest = trimBlanks(rest[1:])
	}
	return value, rest, nil
}

// put adds attribute i's value to the record.
func (a *arff) put(rec *Record, i int, value []byte) error {
	at := &a.attributes[i]
	switch {
	case at.part == ignoredAttribute, a.missing && (at.part == classAttribute || at.label != "" || at.oneHot):
		return nil
	case a.missing:
		return fmt.Errorf("attribute %d: %w", i, ErrMissing)
	}
	var v float32
	switch {
	case at.zeroOne && len(value) == 1 && (value[0] == '0' || value[0] == '1'):
		v = float32(value[0] - '0')
	case at.values != nil:
		var ok bool
		if v, ok = at.values[string(value)]; !ok {
			return fmt.Errorf("attribute %d: %.40q is not one of its values", i, value)
		}
	}
	if at.part == classAttribute {
		return rec.addLabel(string(value))
	}
	if at.values == nil {
		var err error
		if v, err = parseValue(value); err != nil {
			return fmt.Errorf("attribute %d: %w", i, err)
		}
	}
	if at.label != "" && v != 0 && v != 1 {
		return fmt.Errorf("attribute %d is the label %.40q: %.40q is neither 0 nor 1", i, at.label, value)
	}
	return a.set(rec, at, v)
}

func (a *arff) set(rec *Record, at *attribute, v float32) error {
	switch {
	case at.part == classAttribute:
		return rec.addLabel(at.absent)
	case at.label != "":
		if v == 1 {
			return rec.addLabel(at.label)
		}
	case at.oneHot:
		return appendFeature(&rec.Features, at.feature+uint32(v), 1)
	case v != 0:
		return appendFeature(&rec.Features, at.feature, v)
	}
	return nil
}

// arffHeader reads up to @data.
func arffHeader(in *lines, limit int) (columns []column, relation string, err error) {
	names := map[string]bool{}
	for {
		line, err := in.next(-1)
		if err == io.EOF {
			return nil, "", in.bad(-1, fmt.Errorf("no @data: truncated: %w", io.ErrUnexpectedEOF))
		}
		if err != nil {
			return nil, "", err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '%' {
			continue
		}
		if err := in.src.encoded(line); err != nil {
			return nil, "", in.bad(-1, err)
		}
		word, rest := cutField(line)
		switch strings.ToLower(string(word)) {
		case "@relation":
			relation = string(rest)
		case "@data":
			if len(columns) == 0 {
				return nil, "", in.bad(-1, errors.New("no attributes"))
			}
			return columns, relation, nil
		case "@attribute":
			c, err := parseColumn(trimBlanks(rest))
			if err != nil {
				return nil, "", in.bad(-1, err)
			}
			if names[c.name] {
				return nil, "", in.bad(-1, fmt.Errorf("attribute %.40q is given twice", c.name))
			}
			if names[c.name] = true; len(columns) == limit {
				return nil, "", in.bad(-1, fmt.Errorf("more than %d attributes", limit))
			}
			columns = append(columns, c)
		default:
			return nil, "", in.bad(-1, fmt.Errorf("%.40q where @relation, @attribute or @data was due", word))
		}
	}
}

// parseColumn reads an attribute's name and type.
func parseColumn(text []byte) (column, error) {
	var c column
	if len(text) == 0 {
		return c, errors.New("an attribute without a name")
	}
	var kind []byte
	if text[0] == '\'' || text[0] == '"' {
		name, rest, err := unquote(nil, text)
		if err != nil {
			return c, err
		}
		c.name, kind = string(name), trimBlanks(rest)
	} else {
		// Without quotes a backslash or a quote inside is an ordinary letter:
		// Mulan's own files and their XML agree in that.
		name, rest := cutField(text)
		if at := bytes.IndexByte(name, '{'); at > 0 {
			name, rest = text[:at], text[at:]
		}
		c.name, kind = string(name), trimBlanks(rest)
	}
	if c.name == "" {
		return c, errors.New("an attribute without a name")
	}
	if len(kind) == 0 {
		return c, fmt.Errorf("attribute %.40q has no type", c.name)
	}
	if kind[0] == '{' {
		var err error
		if c.nominal, err = parseNominal(kind[1:]); err != nil {
			return c, fmt.Errorf("attribute %.40q: %w", c.name, err)
		}
		return c, nil
	}
	word, _ := cutField(kind)
	switch strings.ToLower(string(word)) {
	case "numeric", "real", "integer":
		return c, nil
	}
	c.other = string(word)
	return c, nil
}

// parseNominal reads "value, value}".
func parseNominal(text []byte) ([]string, error) {
	var (
		a    arff // for its buffer
		list []string
	)
	given := map[string]bool{}
	for text = trimBlanks(text); len(text) > 0; {
		if text[0] == '}' && len(list) > 0 {
			return list, nil
		}
		value, rest, err := a.value(text, true)
		switch {
		case err != nil:
			return nil, err
		case a.missing:
			return nil, errors.New("a question mark in a list of values")
		case given[string(value)]:
			return nil, fmt.Errorf("the value %.40q is given twice", value)
		}
		list = append(list, string(value))
		given[list[len(list)-1]] = true
		text = rest
	}
	return nil, errors.New("a list of values without its closing brace")
}

// unquote appends what stands between the quotes at the front of text.
func unquote(dst, text []byte) (value, rest []byte, err error) {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == quote:
			return dst, text[i+1:], nil
		case c == '\\' && i+1 < len(text):
			i++
			switch text[i] {
			case 'n':
				dst = append(dst, '\n')
			case 'r':
				dst = append(dst, '\r')
			case 't':
				dst = append(dst, '\t')
			default:
				dst = append(dst, text[i])
			}
		default:
			dst = append(dst, c)
		}
	}
	return nil, nil, fmt.Errorf("%.40q has no closing quote", text)
}

// mekaLabels finds "-C n" in a relation's name, where Meka keeps the number of
// labels: the first n attributes, or the last for a negative n.
func mekaLabels(relation string) (int, bool) {
	relation = strings.TrimSpace(relation)
	fields := strings.Fields(strings.Trim(relation, `'"`))
	for i := 0; i+1 < len(fields); i++ {
		if fields[i] == "-C" || strings.HasSuffix(fields[i], ":-C") {
			n, err := strconv.Atoi(fields[i+1])
			return n, err == nil
		}
	}
	return 0, false
}
