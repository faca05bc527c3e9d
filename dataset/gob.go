package dataset

import (
	"errors"
)

// Numbers of the types that every gob has: those below gobBytes are one number each, and from gobFirst on
// they are defined by the file. The names of kinds are those of the fields of a definition.
const (
	gobInt     = 2
	gobFloat   = 4
	gobBytes   = 5
	gobString  = 6
	gobComplex = 7
	gobWire    = 16 // a definition
	gobMember  = 21 // the description of a field
	gobFirst   = 64

	gobArray  = "ArrayT"
	gobSlice  = "SliceT"
	gobStruct = "StructT"
	gobMap    = "MapT"
)

// gobType describes a type.
type gobType struct {
	kind      string
	key, elem int64 // types of the items of maps, slices and arrays
	fields    []gobField
}

// gobField is a field of a struct.
type gobField struct {
	name string
	id   int64
}

// newGobReader returns a reader that knows the types of definitions.
func newGobReader(s *source) gobReader {
	const array, common, slice, structure, members, mapping = 17, 18, 19, 20, 22, 23
	as := func(fields ...gobField) *gobType { return &gobType{kind: gobStruct, fields: fields} }
	head, elem := gobField{"CommonType", common}, gobField{"Elem", gobInt}
	return gobReader{src: s, record: -1, types: map[int64]*gobType{
		gobWire: as(gobField{gobArray, array}, gobField{gobSlice, slice}, gobField{gobStruct, structure},
			gobField{gobMap, mapping}),
		array:     as(head, elem, gobField{"Len", gobInt}),
		common:    as(gobField{"Name", gobString}, gobField{"Id", gobInt}),
		slice:     as(head, elem),
		structure: as(head, gobField{"Field", members}),
		gobMember: as(gobField{"Name", gobString}, gobField{"Id", gobInt}),
		members:   {kind: gobSlice, elem: gobMember},
		mapping:   as(head, gobField{"Key", gobInt}, elem),
	}}
}

// gobReader takes a value in the encoding of package encoding/gob apart, in constant memory: a decoder of
// that package holds the whole value, and makes maps as large as a file says. After an error it gives zeros.
// Source: the package's documentation.
type gobReader struct {
	src    *source
	record int64
	types  map[int64]*gobType
	end    int64  // offset of the end of the value
	taken  uint64 // bytes of texts of the record
	err    error
}

var errGob = errors.New("damaged, or of other types than an export has")

// fail sets the error unless there is one.
func (g *gobReader) fail(err error) {
	if g.err == nil {
		g.err = g.src.bad(g.record, g.src.offset, err)
	}
}

func (g *gobReader) expect(ok bool) {
	if !ok {
		g.fail(errGob)
	}
}

// uint takes a number without a sign: itself below 128, or else the negated count of its bytes before them.
func (g *gobReader) uint() (v uint64) {
	b := g.byte()
	if b < 0x80 {
		return uint64(b)
	}
	n := 256 - int(b)
	g.expect(n <= 8)
	for ; n > 0 && g.err == nil; n-- {
		v = v<<8 | uint64(g.byte())
	}
	if g.err != nil {
		return 0
	}
	return v
}

func (g *gobReader) byte() byte {
	if g.err != nil {
		return 0
	}
	b, err := g.src.br.ReadByte()
	if err != nil {
		g.err = g.src.fail(g.record, err)
		return 0
	}
	g.src.offset++
	return b
}

// int takes a number with a sign, which is its lowest bit.
func (g *gobReader) int() int64 {
	u := g.uint()
	if u&1 != 0 {
		return ^int64(u >> 1)
	}
	return int64(u >> 1)
}

// text takes a string. Those of a record have at most maxTextRecord bytes.
func (g *gobReader) text() string {
	n := g.uint()
	if g.taken += min(n, maxTextRecord+1); g.taken > maxTextRecord {
		g.fail(errTooLong)
	}
	if g.err != nil {
		return ""
	}
	b := make([]byte, n)
	if err := g.src.readFull(b); err != nil {
		g.err = g.src.fail(g.record, err)
		return ""
	}
	return string(b)
}

// begin takes the definitions of types, and returns the type of the value behind them.
func (g *gobReader) begin() int64 {
	const mostTypes, mostBytes = 64, 64 << 10 // an export has 6
	for g.err == nil {
		length := g.uint()
		g.expect(length < 1<<62)
		g.end = g.src.offset + int64(length)
		id := g.int()
		if id >= 0 {
			return id
		}
		g.expect(-id >= gobFirst && length <= mostBytes && len(g.types) < mostTypes)
		g.define(-id)
		g.expect(g.src.offset == g.end)
	}
	return 0
}

// define takes the definition of a type.
func (g *gobReader) define(id int64) {
	t := &gobType{}
	g.taken = 0
	for w := g.fields(gobWire); g.next(&w); {
		t.kind = w.name
		for f := g.fields(w.id); g.next(&f); {
			switch f.name {
			case "Key":
				t.key = g.int()
			case "Elem":
				t.elem = g.int()
			case "Field":
				for n := g.uint(); n > 0 && g.err == nil && g.src.offset < g.end; n-- {
					t.fields = append(t.fields, g.member())
				}
			default:
				g.skip(f.id, 0)
			}
		}
	}
	g.types[id] = t
}

// member takes the description of a field.
func (g *gobReader) member() (x gobField) {
	for f := g.fields(gobMember); g.next(&f); {
		if f.name == "Name" {
			x.name = g.text()
		} else {
			x.id = g.int()
		}
	}
	return x
}

// gobFields is the place in a struct. Fields that are zero are left out.
type gobFields struct {
	of   *gobType
	at   int // number of the present field
	done bool
	gobField
}

// fields begins a struct.
func (g *gobReader) fields(id int64) gobFields {
	t := g.types[id]
	g.expect(t != nil && t.kind == gobStruct)
	return gobFields{of: t, at: -1, done: g.err != nil}
}

// next goes to the next field, whose value must be taken, and reports whether there is one.
func (g *gobReader) next(f *gobFields) bool {
	if f.done {
		return false
	}
	delta := g.uint()
	if delta > 0 {
		g.expect(delta <= uint64(len(f.of.fields)-1-f.at))
	}
	if f.done = delta == 0 || g.err != nil; f.done {
		return false
	}
	f.at += int(delta)
	f.gobField = f.of.fields[f.at]
	return true
}

// find goes to a field, and reports whether there is one.
func (g *gobReader) find(f *gobFields, name string) bool {
	for g.next(f) {
		if f.name == name {
			return true
		}
		g.skip(f.id, 0)
	}
	return false
}

// rest passes the fields that are left over.
func (g *gobReader) rest(f *gobFields) { g.find(f, "") }

// mapOf begins a map from strings, and returns the type of its values and their number.
func (g *gobReader) mapOf(id int64) (elem int64, n uint64) {
	t := g.types[id]
	if g.expect(t != nil && t.kind == gobMap && t.key == gobString); g.err != nil {
		return 0, 0
	}
	return t.elem, g.uint()
}

// skip passes a value over.
func (g *gobReader) skip(id int64, depth int) {
	const deepest = 16
	t := g.types[id]
	switch {
	case g.err != nil:
	case id > 0 && id < gobBytes:
		g.uint()
	case id == gobBytes || id == gobString:
		g.pass(g.uint())
	case id == gobComplex:
		g.uint()
		g.uint()
	case t == nil || depth == deepest:
		g.fail(errGob)
	case t.kind == gobStruct:
		for f := g.fields(id); g.next(&f); {
			g.skip(f.id, depth+1)
		}
	default:
		for n := g.uint(); n > 0 && g.err == nil; n-- {
			if t.kind == gobMap {
				g.skip(t.key, depth+1)
			}
			g.skip(t.elem, depth+1)
		}
	}
}

// pass passes bytes over.
func (g *gobReader) pass(n uint64) {
	for n > 0 && g.err == nil {
		k := min(n, 1<<20)
		if n -= k; !g.src.discard(int(k)) {
			g.byte() // its error is that of the file
		}
	}
}
