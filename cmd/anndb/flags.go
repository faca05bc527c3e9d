package main

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// checkFlags refuses what the tags of flags exclude. want:"0 1" and want:"1" bound the values of a
// flag, and with:"a b" has it go with one of other flags only.
func checkFlags(k *kong.Context) error {
	flags := k.Flags()
	for _, f := range flags {
		v := reflect.Indirect(f.Target)
		if !f.Set || !v.IsValid() {
			continue
		}
		if want := f.Tag.Get("want"); want != "" {
			if err := checkRange(f, v, strings.Fields(want)); err != nil {
				return err
			}
		}
		with := strings.Fields(f.Tag.Get("with"))
		if len(with) > 0 && !slices.ContainsFunc(flags, func(o *kong.Flag) bool {
			return o.Set && slices.Contains(with, o.Name)
		}) {
			return fmt.Errorf("%s goes with --%s", spelled(f), strings.Join(with, " or --"))
		}
	}
	return nil
}

// checkRange refuses a value, or one of several, outside of the bounds.
func checkRange(f *kong.Flag, v reflect.Value, bounds []string) error {
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			if err := checkRange(f, v.Index(i), bounds); err != nil {
				return err
			}
		}
		return nil
	}
	x, text := number(fmt.Sprint(v)), bounds[0]+" or more"
	ok := x >= number(bounds[0])
	if len(bounds) > 1 {
		ok = ok && x <= number(bounds[1])
		text = bounds[0] + " to " + bounds[1]
	}
	if !ok {
		return fmt.Errorf("%s %v (want %s)", spelled(f), v, text)
	}
	return nil
}

// number reads a number, or a duration as its seconds.
func number(text string) float64 {
	if d, err := time.ParseDuration(text); err == nil {
		return d.Seconds()
	}
	x, _ := strconv.ParseFloat(text, 64) // of a numeric flag or of a tag
	return x
}

// spelled is a flag as users write it.
func spelled(f *kong.Flag) string {
	if len(f.Name) == 1 {
		return "-" + f.Name
	}
	return "--" + f.Name
}
