package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anndb/anndb/dataset/internal/parquet"
)

// parquetMagic begins and ends a Parquet file.
const parquetMagic = "PAR1"

// parquetDecoder reads the rows of a Parquet file.
type parquetDecoder struct {
	src     *source
	rows    *parquet.Rows
	columns []parquetColumn
	holds   Schema // its Dim is 0 until a record has been read
	maxDim  int
	both    bool // texts and vectors, each of which can be missing
}

// openParquet reads a Parquet file: a column of lists of numbers is the vector, or one of strings the text;
// key, labels, payload and expiry are found by name, as in csv files; all other columns are attributes.
func openParquet(s *source, o Options) (decoder, error) {
	f, err := parquet.Open(s.at, s.size)
	if err != nil {
		return nil, s.parquetError(-1, err)
	}
	d := &parquetDecoder{src: s, rows: f.Read(), maxDim: o.MaxDim}
	d.holds = Schema{Kind: Dense, Base: BaseZero, Records: f.Rows}
	if d.columns, err = parquetColumns(f.Columns, o, &d.holds); err != nil {
		return nil, s.bad(-1, -1, err)
	}
	has := func(r role) bool {
		return slices.ContainsFunc(d.columns, func(c parquetColumn) bool { return c.role == r })
	}
	d.both = has(textRole) && has(vectorRole)
	return d, nil
}

// awaits reports whether the dimension of the vectors next to texts is not known yet.
func (d *parquetDecoder) awaits() bool { return d.both && d.holds.Dim == 0 }

// parquetError makes the error of a fault in a Parquet file.
func (s *source) parquetError(record int64, err error) error {
	if isSystem(err) {
		return s.fail(record, err)
	}
	return s.bad(record, -1, readCause(err))
}

func (d *parquetDecoder) schema() Schema { return d.holds }

func (d *parquetDecoder) next(rec *Record, n int64) error {
	var fault error
	err := d.rows.Next(func(column int, v parquet.Value) {
		if fault != nil {
			return
		}
		c := &d.columns[column]
		if v.Null && d.both && c.role == vectorRole {
			return
		}
		if fault = c.decode(rec, v); fault != nil {
			fault = fmt.Errorf("column %.60q: %w", c.name, fault)
		}
	})
	switch dim := len(rec.Vector); {
	case err == io.EOF:
		return io.EOF
	case err != nil:
		return d.src.parquetError(n, err)
	case fault != nil, d.holds.Kind == Text && dim == 0:
	case d.holds.Dim == 0 && (dim < 1 || dim > d.maxDim):
		fault = fmt.Errorf("a vector of %d values, want 1..%d", dim, d.maxDim)
	case d.holds.Dim == 0:
		d.holds.Dim = dim
	case dim != d.holds.Dim:
		fault = fmt.Errorf("a vector of %d values, the records before have %d", dim, d.holds.Dim)
	}
	if fault != nil {
		return d.src.badRecord(n, -1, fault)
	}
	return nil
}

// role is what a column is for.
type role uint8

const (
	attributeRole role = iota
	ignoredRole
	vectorRole
	textRole
	keyRole
	labelRole
	payloadRole
	expiryRole
)

// parquetColumn is a leaf column.
type parquetColumn struct {
	name  string // of the outermost group
	role  role
	list  bool // a list of values
	kind  int  // type of the file
	means parquet.Meaning
	scale int           // decimal places
	typ   AttributeType // of the values; AnyType: not supported
	parse AttributeType // what a text is parsed as; StringType: nothing else
}

// parquetColumns gives the columns their parts and describes the attributes.
func parquetColumns(leaves []parquet.Column, o Options, holds *Schema) ([]parquetColumn, error) {
	var columns []parquetColumn
	count := map[string]int{}
	for _, leaf := range leaves {
		c := parquetColumn{
			name: leaf.Path[0], list: leaf.MaxRep == 1, kind: leaf.Type, means: leaf.Meaning,
			scale: leaf.Scale, parse: StringType,
		}
		if nested := leaf.MaxRep > 1 || len(leaf.Path) > 1 && !c.list; !nested {
			c.typ = parquetType(leaf)
		}
		count[c.name]++
		columns = append(columns, c)
	}
	for i := range columns {
		if count[columns[i].name] > 1 { // parts of a group
			columns[i].typ = AnyType
		}
	}
	if err := bodyColumn(columns, o, holds); err != nil {
		return nil, err
	}
	for i := range columns {
		if err := columns[i].assign(o, holds); err != nil {
			return nil, fmt.Errorf("column %.60q: %w", columns[i].name, err)
		}
	}
	return columns, namedColumns(columns, o)
}

// parquetType returns the type of a column's values; AnyType if it is not supported.
func parquetType(c parquet.Column) AttributeType {
	whole := c.Type == parquet.Int32 || c.Type == parquet.Int64
	fixed := c.Type == parquet.FixedLenByteArray
	switch c.Meaning {
	case parquet.Plain:
		switch {
		case whole:
			return IntType
		case c.Type == parquet.Float || c.Type == parquet.Double:
			return FloatType
		case c.Type == parquet.Boolean:
			return BoolType
		case c.Type == parquet.ByteArray:
			return StringType
		}
	case parquet.Text:
		if c.Type == parquet.ByteArray {
			return StringType
		}
	case parquet.Unsigned:
		if whole {
			return IntType
		}
	case parquet.Date, parquet.Millis, parquet.Micros, parquet.Nanos:
		if whole {
			return TimeType
		}
	case parquet.Decimal:
		if whole || c.Type == parquet.ByteArray || fixed && c.Length <= maxDecimal {
			return FloatType
		}
	case parquet.UUID:
		if fixed && c.Length == 16 {
			return StringType
		}
	}
	return AnyType
}

// bodyColumn finds the column of vectors and, where records have to be texts or there are no vectors, that
// of texts.
func bodyColumn(columns []parquetColumn, o Options, holds *Schema) error {
	err := vectorColumn(columns, o)
	switch {
	case o.Kind != Text && err == nil, o.Kind == Dense, o.vectorNamed && err != nil, errors.Is(err, ErrVector):
		return err
	}
	name := cmp.Or(o.TextColumn, defaultText)
	i := slices.IndexFunc(columns, func(c parquetColumn) bool {
		return c.name == name && c.typ == StringType && !c.list
	})
	switch {
	case i >= 0:
		columns[i].role, holds.Kind = textRole, Text
		return nil
	case o.Kind == Text:
		return fmt.Errorf("%w No column of strings is named %.60q", ErrText, name)
	}
	return err
}

// vectorColumn finds the column of vectors: that of the options, or the only one of lists of floats, or
// of lists of numbers, or failing that columns of numbers that are numbered.
func vectorColumn(columns []parquetColumn, o Options) error {
	var floats, numbers []int
	for i := range columns {
		c := &columns[i]
		if !c.list || slices.Contains(o.IgnoreColumns, c.name) {
			continue
		}
		switch {
		case c.typ != FloatType && c.typ != IntType:
			continue
		case c.name == o.VectorField:
			c.role = vectorRole
			return nil
		case c.typ == FloatType:
			floats = append(floats, i)
		default:
			numbers = append(numbers, i)
		}
	}
	if len(floats) == 0 {
		floats = numbers
	}
	if len(floats) == 0 {
		return numberedColumns(columns, o)
	}
	if len(floats) != 1 {
		var names []string
		for _, i := range floats {
			names = append(names, columns[i].name)
		}
		return fmt.Errorf("%w Lists of numbers are in %s", ErrVector, listed(names))
	}
	columns[floats[0]].role = vectorRole
	return nil
}

// numberedColumns finds the columns of a vector that has one for each dimension: v0, v1, … or v1, v2, …
func numberedColumns(columns []parquetColumn, o Options) error {
	var prefixes []string
	next := map[string]int{} // number of the next dimension
	parts := map[string][]int{}
	for i, c := range columns {
		prefix := strings.TrimRight(c.name, "0123456789")
		n, err := strconv.Atoi(c.name[len(prefix):])
		known := parts[prefix] != nil
		if err != nil || c.list || c.typ != FloatType && c.typ != IntType || o.names(c.name) ||
			known && n != next[prefix] || !known && n > 1 || o.Kind == Text && prefix != "v" {
			continue
		}
		if len(parts[prefix]) == 1 {
			prefixes = append(prefixes, prefix)
		}
		parts[prefix], next[prefix] = append(parts[prefix], i), n+1
	}
	switch len(prefixes) {
	case 0:
		return errors.New("no column has lists of numbers, and no columns of numbers are named v0, v1, …")
	case 1:
		for _, i := range parts[prefixes[0]] {
			columns[i].role = vectorRole
		}
		return nil
	}
	return fmt.Errorf("%w Columns are numbered that begin with %s (leave out the others)", ErrVector,
		listed(prefixes))
}

// names reports whether an option is about a column.
func (o Options) names(column string) bool {
	return slices.Contains(o.IgnoreColumns, column) || slices.Contains(o.LabelColumns, column) ||
		slices.Contains([]string{o.KeyColumn, o.PayloadColumn, o.ExpiryColumn}, column) ||
		slices.ContainsFunc(o.Attributes, func(a Attribute) bool { return a.Name == column })
}

// assign gives a column its part.
func (c *parquetColumn) assign(o Options, holds *Schema) error {
	is := func(spec string, names ...string) bool {
		return c.name == spec || spec == "" && slices.Contains(names, strings.ToLower(c.name))
	}
	given := slices.IndexFunc(o.Attributes, func(a Attribute) bool { return a.Name == c.name })
	switch {
	case c.role == vectorRole, c.role == textRole:
		return nil
	case slices.Contains(o.IgnoreColumns, c.name):
		c.role = ignoredRole
		return nil
	case c.typ == AnyType:
		return errors.New("its type is not supported (leave it out to read the others)")
	case slices.Contains(o.LabelColumns, c.name),
		given < 0 && o.LabelColumns == nil && is("", "label", "labels"):
		c.role = labelRole
	case c.list:
		return errors.New("a list that is neither the vector nor labels (leave it out to read the others)")
	case given >= 0 && o.Attributes[given].Type != AnyType && o.Attributes[given].Type != c.typ:
		if c.typ != StringType {
			return fmt.Errorf("its values have the type %v, not %v", c.typ, o.Attributes[given].Type)
		}
		c.parse = o.Attributes[given].Type
	case given >= 0:
	case is(o.KeyColumn, "key", "id"):
		c.role, holds.Keyed = keyRole, true
	case is(o.PayloadColumn, "payload"):
		c.role = payloadRole
	case is(o.ExpiryColumn, defaultExpiry):
		c.role, holds.Expires = expiryRole, true
		if c.typ == StringType {
			c.parse = TimeType
		} else if c.typ != TimeType {
			return fmt.Errorf("its values have the type %v, not time", c.typ)
		}
	}
	if c.role == attributeRole {
		typ := c.typ
		if typ == StringType {
			typ = c.parse
		}
		holds.Attributes = append(holds.Attributes, Attribute{c.name, typ})
	}
	return nil
}

// namedColumns checks that the columns that the options name are there.
func namedColumns(columns []parquetColumn, o Options) error {
	keys := 0
	for _, c := range columns {
		if c.role == keyRole {
			keys++
		}
	}
	if keys > 1 {
		return errors.New("columns key and id: which one has the keys?")
	}
	for _, name := range o.namedColumns() {
		if name != "" && !slices.ContainsFunc(columns, func(c parquetColumn) bool { return c.name == name }) {
			return fmt.Errorf("no column %.60q", name)
		}
	}
	return nil
}

// decode adds a value of a column to rec.
func (c *parquetColumn) decode(rec *Record, v parquet.Value) error {
	switch {
	case c.role == ignoredRole:
		return nil
	case v.Null && c.role == keyRole:
		return errEmptyKey
	case v.Null && c.role == vectorRole:
		return errors.New("the vector, or a value of it, is missing")
	case v.Null: // an empty list, or no value
		return nil
	case c.role == vectorRole:
		return c.addValue(rec, v)
	case c.role == textRole:
		rec.Text = string(v.Bytes)
		return checkText(rec.Text)
	}
	x, err := c.value(v)
	if s, ok := x.(string); ok && c.parse != StringType {
		x, err = c.parse.Parse(s)
	}
	if err != nil || x == nil {
		return err
	}
	switch c.role {
	case keyRole:
		if rec.Key = appendValue(rec.Key[:0], x); len(rec.Key) == 0 {
			return errEmptyKey
		}
	case labelRole:
		if label := string(appendValue(nil, x)); label != "" {
			rec.Labels, err = appendLabel(rec.Labels, label)
		}
		return err
	case payloadRole:
		rec.Payload = appendValue(rec.Payload, x)
	case expiryRole:
		rec.ExpiresAt = x.(time.Time)
	case attributeRole:
		if f, ok := x.(float64); ok && f != f {
			return nil // what data frames write for a missing value
		}
		return rec.setAttribute(c.name, x)
	}
	return nil
}

// addValue adds a number to the vector.
func (c *parquetColumn) addValue(rec *Record, v parquet.Value) error {
	var f float32
	switch c.kind {
	case parquet.Float:
		f = math.Float32frombits(uint32(v.Bits))
	case parquet.Double:
		f = float32(math.Float64frombits(v.Bits))
	default:
		x, err := c.value(v)
		if err != nil {
			return err
		}
		n, whole := x.(int64)
		if !whole {
			f = float32(x.(float64))
		} else if f = float32(n); f >= 1<<63 || int64(f) != n {
			return fmt.Errorf("%d: float32 cannot hold it exactly", n)
		}
	}
	if rec.Vector = append(rec.Vector, f); !finite(f) {
		return fmt.Errorf("value %d is not finite as float32", len(rec.Vector)-1)
	}
	return nil
}

// value returns a value as that of an attribute.
func (c *parquetColumn) value(v parquet.Value) (any, error) {
	n := int64(v.Bits)
	if c.kind == parquet.Int32 && c.means != parquet.Unsigned {
		n = int64(int32(v.Bits))
	}
	switch c.typ {
	case BoolType:
		return v.Bits != 0, nil
	case FloatType:
		if c.means == parquet.Decimal {
			return c.decimal(n, v.Bytes)
		}
		if c.kind == parquet.Float {
			return float64(math.Float32frombits(uint32(v.Bits))), nil
		}
		return math.Float64frombits(v.Bits), nil
	case IntType:
		if c.means == parquet.Unsigned && n < 0 {
			return nil, fmt.Errorf("%d is out of the range of int64", v.Bits)
		}
		return n, nil
	case TimeType:
		t := timeOf(n, c.means)
		return t, checkYear(t)
	}
	if b := v.Bytes; c.means == parquet.UUID {
		return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
	}
	return string(v.Bytes), nil
}

// maxDecimal bounds the bytes of a decimal.
const maxDecimal = 32

// decimal returns the float that is nearest to a decimal, of n units or of as many as the bytes say.
func (c *parquetColumn) decimal(n int64, bytes []byte) (float64, error) {
	units := big.NewInt(n)
	if c.kind == parquet.ByteArray || c.kind == parquet.FixedLenByteArray {
		if len(bytes) > maxDecimal {
			return 0, fmt.Errorf("a decimal of %d bytes, want at most %d", len(bytes), maxDecimal)
		}
		units.SetBytes(bytes)
		if len(bytes) > 0 && bytes[0] > 127 { // negative
			units.Sub(units, new(big.Int).Lsh(big.NewInt(1), uint(8*len(bytes))))
		}
	}
	one := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(c.scale)), nil)
	f, _ := new(big.Rat).SetFrac(units, one).Float64()
	return f, nil
}

// timeOf returns the time that a number means.
func timeOf(n int64, m parquet.Meaning) time.Time {
	switch m {
	case parquet.Date:
		return time.Unix(n*24*3600, 0).UTC()
	case parquet.Millis:
		return time.UnixMilli(n).UTC()
	case parquet.Micros:
		return time.UnixMicro(n).UTC()
	}
	return time.Unix(0, n).UTC()
}
