//go:build !linux

package db

import "errors"

var errLinuxOnly = errors.New("only on linux")

func childLimit(string) error { return errLinuxOnly }
func childSpace(string) error { return errLinuxOnly }
