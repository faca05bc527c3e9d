//go:build !unix || aix || solaris

package store

import (
	"os"

	"go.etcd.io/bbolt"
)

// adviseNormal does nothing where there is no madvise.
func adviseNormal(*bbolt.Info, int64) {}

func willNeed([]byte) {}

// unlock does nothing where closing a file releases its lock.
func unlock(*os.File) {}
