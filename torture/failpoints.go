//go:build !failpoints

package main

import "errors"

// failpoint sets a failpoint inside bbolt, of which a build without the tag
// failpoints has none.
func failpoint(string, string) (int, error) {
	return 0, errors.New("built without failpoints")
}
