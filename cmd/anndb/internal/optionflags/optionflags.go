// Package optionflags derives flags from structs of options: a field with a flag tag is a flag of that
// name.
package optionflags

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Source is a struct of options.
type Source struct {
	Options any    // a pointer
	Kinds   string // the kinds of index that have the options, as in "sbt, pt and at"
	Group   string
	Without []string // the fields whose flags a command does not have
}

// Set are the flags of several structs. Those of one name are one flag.
type Set struct {
	names  []string
	kinds  map[string]string // of index, by flag
	values reflect.Value     // the struct that the parser fills in
}

// New returns the flags of structs, and what the parser takes in place of a struct with them.
func New(sources ...Source) (*Set, kong.Plugins) {
	s := &Set{kinds: map[string]string{}}
	var fields []reflect.StructField
	for _, from := range sources {
		for _, l := range leaves(reflect.TypeOf(from.Options).Elem(), "", from.Group) {
			top, _, _ := strings.Cut(l.path, ".")
			if slices.Contains(from.Without, top) {
				continue
			}
			kinds := s.kinds[l.flag]
			s.kinds[l.flag] = from.Kinds
			if kinds != "" {
				s.kinds[l.flag] = kinds + ", " + from.Kinds
				continue
			}
			s.names = append(s.names, l.flag)
			fields = append(fields, l.field(len(fields)))
		}
	}
	v := reflect.New(reflect.StructOf(fields))
	s.values = v.Elem()
	return s, kong.Plugins{v.Interface()}
}

// leaf is a field that is a flag: its path from the struct of options, and the flag.
type leaf struct {
	reflect.StructField
	path, flag, group string
}

// leaves returns the flags of a type and of the structs in it.
func leaves(t reflect.Type, path, group string) (out []leaf) {
	for i := range t.NumField() {
		out = append(out, leavesOf(t.Field(i), path, group)...)
	}
	return out
}

// leavesOf returns the flag of a field, or those of its struct.
func leavesOf(f reflect.StructField, path, group string) []leaf {
	l := leaf{f, path + f.Name, f.Tag.Get("flag"), group}
	if g, ok := f.Tag.Lookup("group"); ok {
		l.group = g
	}
	switch l.flag {
	case "":
	case "-": // no flags of the options of members
		return nil
	default:
		return []leaf{l}
	}
	inner := f.Type
	if inner.Kind() == reflect.Pointer {
		inner = inner.Elem()
	}
	if inner.Kind() != reflect.Struct {
		return nil
	}
	return leaves(inner, l.path+".", l.group)
}

// field returns the field of the parser's struct for a flag: a string, a list or a pointer, which are
// zero if the flag is not given.
func (l leaf) field(i int) reflect.StructField {
	tag := fmt.Sprintf("name:%q group:%q", l.flag, l.group)
	for _, name := range []string{"with", "without"} {
		if x := l.Tag.Get(name); x != "" {
			tag += fmt.Sprintf(" %s:%q", name, x)
		}
	}
	t, placeholder := l.Type, "N"
	switch {
	case t.Kind() == reflect.String || isText(t):
		e := l.Tag.Get("enum")
		if isText(t) {
			e = "${objectives}" // no other type is read from texts
		}
		t, placeholder = reflect.TypeFor[string](), strings.ToUpper(l.flag)
		if e != "" {
			tag += fmt.Sprintf(` enum:%q default:""`, ","+e)
		}
	case t.Kind() == reflect.Slice:
		placeholder = "N,…"
	case t == reflect.TypeFor[time.Duration]():
		t, placeholder = reflect.PointerTo(t), "TIME"
	case l.isSize():
		t, placeholder = reflect.TypeFor[string](), "SIZE"
	default:
		t = reflect.PointerTo(t)
	}
	tag += fmt.Sprintf(" placeholder:%q", placeholder)
	return reflect.StructField{Name: "F" + strconv.Itoa(i), Type: t, Tag: reflect.StructTag(tag)}
}

// isText reports whether values of a type are read from texts.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// given returns the value of a flag, false if it is not given or no flag of the set.
func (s *Set) given(flag string) (reflect.Value, bool) {
	i := slices.Index(s.names, flag)
	if i < 0 || s.values.Field(i).IsZero() {
		return reflect.Value{}, false
	}
	return reflect.Indirect(s.values.Field(i)), true
}

// Any reports whether any flag is given.
func (s *Set) Any() bool { return !s.values.IsZero() }

// Fill sets the fields of options whose flags are given. It refuses flags that the options do not have,
// and the lack of one that the others need.
func (s *Set) Fill(options any) error {
	known := map[string]bool{}
	if err := s.fill(reflect.ValueOf(options).Elem(), known); err != nil {
		return err
	}
	for _, name := range s.names {
		if _, ok := s.given(name); ok && !known[name] {
			return fmt.Errorf("--%s goes with --kind %s", name, s.kinds[name])
		}
	}
	return nil
}

// fill sets the fields of a struct, and adds its flags to known.
func (s *Set) fill(v reflect.Value, known map[string]bool) error {
	var given, needed string
	for i := range v.NumField() {
		f, x := v.Type().Field(i), v.Field(i)
		if !f.IsExported() {
			continue
		}
		for _, l := range leavesOf(f, "", "") {
			known[l.flag] = true
			value, ok := s.given(l.flag)
			_, isNeeded := l.Tag.Lookup("needed")
			switch {
			case !ok && isNeeded && l.path == f.Name:
				needed = l.flag
			case ok && l.path == f.Name:
				given = l.flag
				if l.isSize() {
					n, err := size(value.String())
					if err != nil {
						return fmt.Errorf("--%s: %w", l.flag, err)
					}
					value = reflect.ValueOf(n)
				}
				if err := set(x, value); err != nil {
					return fmt.Errorf("--%s: %w", l.flag, err)
				}
			case ok:
				given = l.flag
				if x.Kind() == reflect.Pointer && x.IsNil() {
					x.Set(reflect.New(x.Type().Elem()))
				}
			}
		}
		inner := reflect.Indirect(x)
		if f.Tag.Get("flag") != "-" && inner.IsValid() && inner.Kind() == reflect.Struct {
			if err := s.fill(inner, known); err != nil {
				return err
			}
		}
	}
	if given != "" && needed != "" {
		return fmt.Errorf("--%s goes with --%s", given, needed)
	}
	return nil
}

// isSize reports whether a flag is a number of bytes as people write it.
func (l leaf) isSize() bool {
	_, ok := l.Tag.Lookup("size")
	return ok
}

// size returns the number of bytes of a text such as 512MiB.
func size(s string) (int64, error) {
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if number, ok := strings.CutSuffix(s, unit); ok {
			x, err := strconv.ParseFloat(number, 64)
			if err != nil || !(x >= 0 && x < 1<<20) {
				return 0, fmt.Errorf("%q is no size", s)
			}
			return int64(x * float64(int64(1)<<(10*(i+1)))), nil
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no size such as 512MiB, 1GiB, or a number of bytes", s)
	}
	return n, nil
}

// set sets a field to the value of a flag.
func set(x, value reflect.Value) error {
	if isText(x.Type()) {
		return x.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(value.String()))
	}
	x.Set(value.Convert(x.Type()))
	return nil
}

// Name returns the flag of the field with a path in a struct of options, or its flags if it is a struct.
func Name(options any, path string) string {
	var flags []string
	for _, l := range leaves(reflect.TypeOf(options).Elem(), "", "") {
		if l.path == path || strings.HasPrefix(l.path, path+".") {
			flags = append(flags, "--"+l.flag)
		}
	}
	if flags == nil {
		return "--" + strings.ToLower(path) // a flag of the command itself
	}
	return strings.Join(flags, " or ")
}
