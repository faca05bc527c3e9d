//go:build !linux && !darwin && !freebsd && !dragonfly

package store

import (
	"os"

	"go.etcd.io/bbolt"
)

// There is no advice here, closing a file releases its lock, and names and room are not known.

func adviseNormal(*bbolt.Info, int64) {}

func willNeed([]byte) {}

func unlock(*os.File) {}

func links(os.FileInfo) uint64 { return 1 }

// Room returns UnknownRoom.
var Room = func(string) int64 { return UnknownRoom }
