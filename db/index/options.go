// Package index has the options with which package db builds indexes, and the description of a
// built one. The tags of the options are the one declaration of their limits and of the command's
// flags.
package index

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/anndb/anndb/db/internal/fail"
)

// Options are the options of a kind of index: *Forest, *Postings, *LCIF, *LabelTree, *Trees or *Auto. The
// zero value of each is a good default.
type Options interface {
	// Name returns the name of the kind, for a forest that of its learner.
	Name() string
	// Check refuses values that are out of range, contradict each other, or do not suit a collection of dim
	// coordinates: 0 for a sparse one, below 0 for any. What depends on the number of rows is lowered by a
	// build instead, since a collection grows and shrinks. The error is an *Error.
	Check(dim int) error
}

// New returns the options of a kind of index by its name, a forest if it has none of the others.
func New(kind string) Options {
	switch kind {
	case "postings":
		return &Postings{}
	case "lcif":
		return &LCIF{}
	case "labeltree":
		return &LabelTree{}
	case "auto-labels":
		return &Auto{}
	case "sbt", "pt", "at":
		return &Trees{Kind: kind}
	}
	return &Forest{Learner: kind}
}

// Error is the error of options that are refused. It wraps db.ErrInvalid.
type Error struct {
	text string // names of options are in braces
}

// refuse returns an Error. The format has the names of options in braces, such as {Params.K}.
func refuse(format string, a ...any) *Error { return &Error{fmt.Sprintf(format, a...)} }

// Error returns a message with the names of the fields.
func (e *Error) Error() string {
	return fail.Option.Error() + ": " + e.Text(func(field string) string { return field })
}

// Unwrap returns the reason, which wraps db.ErrInvalid.
func (e *Error) Unwrap() error { return fail.Option }

var braces = regexp.MustCompile(`\{[A-Z][A-Za-z.]*\}`)

// Text returns the message with other names of the fields, such as those of flags.
func (e *Error) Text(name func(field string) string) string {
	return braces.ReplaceAllStringFunc(e.text, func(s string) string { return name(strings.Trim(s, "{}")) })
}

// checkTags refuses values that break the tags of the fields of a struct: enum lists the values, of
// which zero is always one; min, max and above bound numbers, those of a list one by one, which are finite.
func checkTags(o reflect.Value, path string) error {
	for i := range o.NumField() {
		f, v := o.Type().Field(i), o.Field(i)
		name := path + f.Name
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				continue
			}
			v = v.Elem()
		}
		_, text := v.Interface().(encoding.TextMarshaler)
		switch {
		case !f.IsExported() || text:
		case v.Kind() == reflect.Struct:
			if err := checkTags(v, name+"."); err != nil {
				return err
			}
		case v.Kind() == reflect.Slice:
			for j := range v.Len() {
				if err := checkTag(f.Tag, name, v.Index(j)); err != nil {
					return err
				}
			}
		default:
			if err := checkTag(f.Tag, name, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkTag refuses a value that breaks a tag.
func checkTag(tag reflect.StructTag, name string, v reflect.Value) error {
	if list, ok := tag.Lookup("enum"); ok {
		shown := fmt.Sprint(v.Interface())
		for _, x := range strings.Split(list, ",") {
			if x == shown || v.IsZero() {
				return nil
			}
		}
		if v.Kind() == reflect.String {
			shown = strconv.Quote(shown)
		}
		return refuse("{%s} %s (want one of %s)", name, shown, strings.ReplaceAll(list, ",", ", "))
	}
	var x float64
	switch {
	case v.CanInt():
		x = float64(v.Int())
	case !v.CanFloat():
		return nil
	case v.Float()-v.Float() != 0:
		return refuse("{%s} %v (want a finite number)", name, v.Interface())
	default:
		x = v.Float()
	}
	low, want, ok := tag.Get("min"), "at least ", true
	if low != "" {
		ok = x >= number(low)
	} else if low = tag.Get("above"); low != "" {
		want, ok = "above ", x > number(low)
	}
	high := tag.Get("max")
	switch {
	case low == "":
		return nil
	case high != "" && want == "above ":
		want, ok = want+low+" and at most "+high, ok && x <= number(high)
	case high != "":
		want, ok = low+" to "+high, ok && x <= number(high)
	default:
		want += low
	}
	if ok {
		return nil
	}
	return refuse("{%s} %v (want %s)", name, v.Interface(), want)
}

// number returns the number of a tag.
func number(s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err) // a tag of this package
	}
	return x
}
