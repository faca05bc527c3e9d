package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// checkFlags refuses what the tags of flags exclude. want:"0 1" and want:"1" bound the values of a
// flag, with:"a b" has it go with one of other flags only, and without:"a b" with none of them.
func checkFlags(k *kong.Context) error {
	given := map[string]*kong.Flag{}
	for _, p := range k.Path {
		if p.Flag != nil {
			given[p.Flag.Name] = p.Flag
		}
	}
	isGiven := func(name string) bool { return given[name] != nil }
	for _, name := range slices.Sorted(maps.Keys(given)) {
		f := given[name]
		with, without := strings.Fields(f.Tag.Get("with")), strings.Fields(f.Tag.Get("without"))
		if len(with) > 0 && !slices.ContainsFunc(with, isGiven) {
			return fmt.Errorf("%s goes with --%s", spelled(name), strings.Join(with, " or --"))
		}
		if i := slices.IndexFunc(without, isGiven); i >= 0 {
			return fmt.Errorf("%s and %s exclude each other", spelled(without[i]), spelled(name))
		}
		if want := strings.Fields(f.Tag.Get("want")); len(want) > 0 {
			if err := checkRange(name, reflect.Indirect(f.Target), want); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRange refuses a value, or one of several, outside of the bounds.
func checkRange(name string, v reflect.Value, bounds []string) error {
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			if err := checkRange(name, v.Index(i), bounds); err != nil {
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
		return fmt.Errorf("%s %v (want %s)", spelled(name), v, text)
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
func spelled(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
