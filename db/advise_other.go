//go:build !unix || aix || solaris

package db

import "go.etcd.io/bbolt"

// adviseNormal does nothing where there is no madvise.
func adviseNormal(*bbolt.Info, int64) {}
