//go:build failpoints

package main

import gofail "go.etcd.io/gofail/runtime"

// failpoint sets a failpoint, or without terms ends it and says how often it
// has been passed.
func failpoint(name, terms string) (hits int, err error) {
	if terms != "" {
		return 0, gofail.Enable(name, terms)
	}
	_, hits, err = gofail.Status(name)
	if err != nil {
		return 0, err
	}
	return hits, gofail.Disable(name)
}
