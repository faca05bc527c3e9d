package db

import (
	"fmt"

	"github.com/anndb/anndb/db/internal/fail"
)

// Switch turns off a part of a call or of an index that is on by default.
type Switch string

// The positions of a switch. Empty means On.
const (
	On  Switch = "on"
	Off Switch = "off"
)

// check refuses positions that there are not. name is the option's.
func (s Switch) check(name string) error {
	if s != "" && s != On && s != Off {
		return fmt.Errorf("%w: %s is %q, want %q or %q", fail.Option, name, s, On, Off)
	}
	return nil
}

// offIf returns Off if off is true, and otherwise On.
func offIf(off bool) Switch {
	if off {
		return Off
	}
	return On
}
