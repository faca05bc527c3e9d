//go:build race

package db_test

const racing = true
