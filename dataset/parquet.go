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

// parquetColumn is a leaf column, by the name of the outermost group.
type parquetColumn struct {
	*tableColumn
	list  bool // a list of values
	kind  int  // type of the file
	means parquet.Meaning
	scale int           // decimal places
	typ   AttributeType // of the values; AnyType: not supported
}

// parquetColumns gives the columns their parts and describes the attributes.
func parquetColumns(leaves []parquet.Column, o Options, holds *Schema) ([]parquetColumn, error) {
	var columns []parquetColumn
	var table []*tableColumn
	for i, leaf := range leaves {
		c := parquetColumn{
			list: leaf.MaxRep == 1, kind: leaf.Type, means: leaf.Meaning, scale: leaf.Scale,
		}
		if nested := leaf.MaxRep > 1 || len(leaf.Path) > 1 && !c.list; !nested {
			c.typ = parquetType(leaf)
		}
		if i > 0 && columns[i-1].name == leaf.Path[0] { // parts of a group
			c.tableColumn = columns[i-1].tableColumn
			c.typ, columns[i-1].typ = AnyType, AnyType
		} else {
			c.tableColumn = &tableColumn{name: leaf.Path[0]}
			table = append(table, c.tableColumn)
		}
		columns = append(columns, c)
	}
	err := assign(table, o)
	if err == nil {
		err = bodyColumn(columns, o, holds)
	}
	if err != nil {
		return nil, err
	}
	for _, c := range columns {
		if err := c.check(o, holds); err != nil {
			return nil, fmt.Errorf("column %.60q: %w", c.name, err)
		}
	}
	return columns, nil
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
		return c.name == name && c.typ == StringType && !c.list && (c.role == noRole || c.role == textRole)
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

// numbers reports whether the column has numbers and no part yet.
func (c *parquetColumn) numbers() bool {
	return c.role == noRole && (c.typ == FloatType || c.typ == IntType)
}

// vectorColumn finds the column of vectors: that of the options, or the only one of lists of floats, or
// of lists of numbers, or failing that columns of numbers that are numbered.
func vectorColumn(columns []parquetColumn, o Options) error {
	lists := map[AttributeType][]parquetColumn{}
	for _, c := range columns {
		if !c.list || !c.numbers() {
			continue
		}
		if c.name == o.VectorField {
			c.role = vectorRole
			return nil
		}
		lists[c.typ] = append(lists[c.typ], c)
	}
	found := lists[FloatType]
	if found == nil {
		found = lists[IntType]
	}
	switch len(found) {
	case 0:
		return numberedColumns(columns, o)
	case 1:
		found[0].role = vectorRole
		return nil
	}
	var names []string
	for _, c := range found {
		names = append(names, c.name)
	}
	return fmt.Errorf("%w Lists of numbers are in %s", ErrVector, listed(names))
}

// numberedColumns finds the columns of a vector that has one for each dimension: v0, v1, … or v1, v2, …
func numberedColumns(columns []parquetColumn, o Options) error {
	var prefixes []string
	next := map[string]int{} // number of the next dimension
	parts := map[string][]parquetColumn{}
	for _, c := range columns {
		prefix := strings.TrimRight(c.name, "0123456789")
		n, err := strconv.Atoi(c.name[len(prefix):])
		known := parts[prefix] != nil
		if err != nil || c.list || !c.numbers() ||
			known && n != next[prefix] || !known && n > 1 || o.Kind == Text && prefix != "v" {
			continue
		}
		if len(parts[prefix]) == 1 {
			prefixes = append(prefixes, prefix)
		}
		parts[prefix], next[prefix] = append(parts[prefix], c), n+1
	}
	switch len(prefixes) {
	case 0:
		return errors.New("no column has lists of numbers, and no columns of numbers are named v0, v1, …")
	case 1:
		for _, c := range parts[prefixes[0]] {
			c.role = vectorRole
		}
		return nil
	}
	return fmt.Errorf("%w Columns are numbered that begin with %s (leave out the others)", ErrVector,
		listed(prefixes))
}

// check checks that the values suit the part of the column, and describes it.
func (c *parquetColumn) check(o Options, holds *Schema) error {
	want := c.as.Type
	switch {
	case c.role == ignoredRole, c.role == vectorRole, c.role == textRole:
		return nil
	case c.typ == AnyType:
		return errors.New("its type is not supported (leave it out to read the others)")
	case c.list && c.role != labelRole:
		return errors.New("a list that is neither the vector nor labels (leave it out to read the others)")
	case c.role == keyRole:
		holds.Keyed = true
	case c.role == expiryRole:
		holds.Expires, want = true, TimeType
	case c.role == noRole:
		c.role, c.as.Name = attributeRole, c.name
	}
	if want != AnyType && want != c.typ && c.typ != StringType {
		return fmt.Errorf("its values have the type %v, not %v", c.typ, want)
	}
	if c.as.Type = cmp.Or(want, c.typ); c.role == attributeRole {
		if a, ok := typedName(c.name); ok && a.Type == c.as.Type {
			c.as.Name = a.Name
		}
		holds.Attributes = append(holds.Attributes, c.as)
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
	text, ok := x.(string)
	if ok && c.as.Type != StringType {
		x, err = c.as.Type.Parse(text)
	}
	switch {
	case err != nil:
		return err
	case c.role == expiryRole, c.role == attributeRole:
		if f, ok := x.(float64); ok && math.IsNaN(f) { // what data frames write for a missing value
			x = nil
		}
		return c.putValue(rec, x)
	case !ok:
		text = string(appendValue(nil, x))
	}
	return c.put(rec, text)
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
