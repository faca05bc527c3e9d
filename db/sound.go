package db

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/anndb/anndb/db/internal/page"
)

// Blocks have checksums, bbolt's pages do not: a flipped bit in a page can hide entries, change
// keys, or make bbolt loop until the process dies. Therefore bbolt may walk a bucket only after
// this process has walked it once itself, with bounds-checked reads (package page). Later changes
// are the process's own commits.
//
// The walk reads page headers, element tables and keys. It reads values only if they are small
// and not verified elsewhere: the entries of keys and labels have their own checksums, and sets
// are blocks whose absence no other check would detect.

// The parts of the file that can be walked: the buckets, in the order of rootBuckets, and the
// list of free pages compared with all of them, which must be valid before a write.
const (
	soundBlocks uint32 = 1 << iota
	soundKeys
	soundLabels
	soundMeta
	soundSets
	soundTail
	soundFree
	soundShape // before all others, see page.Walker.Unaccounted
	soundAll   = 1<<iota - 1
)

// sound walks the named parts of the file unless they have been walked already.
func (s *store) sound(parts uint32) error { return s.soundIn(context.Background(), parts) }

// soundIn is sound with a context.
func (s *store) soundIn(ctx context.Context, parts uint32) error {
	if s.walked.Load()&parts == parts || s.verify == VerifyNever {
		return nil
	}
	// Until all parts have been walked, this process commits nothing, so the latest state in
	// the file is the one that every transaction sees. A write waits here for a walk that a
	// reader has begun.
	s.walkMu.Lock()
	defer s.walkMu.Unlock()
	for todo := (parts | soundShape) &^ s.walked.Load(); todo != 0; {
		part := todo & -todo
		if todo&soundShape != 0 {
			part = soundShape
		}
		todo &^= part
		i := bits.TrailingZeros32(part)
		if s.unsound[i] == nil {
			err := s.walk(ctx, part)
			if ctx.Err() != nil { // a cancelled walk has no result
				return fmt.Errorf("db: open: %w", ctx.Err())
			}
			s.unsound[i] = err
		}
		if err := s.unsound[i]; err != nil {
			return err
		}
		s.walked.Or(part)
	}
	return nil
}

// walk walks one part of the file's latest state.
func (s *store) walk(ctx context.Context, part uint32) error {
	m, err := latestMeta(s.file)
	if err != nil {
		return corruptf("", "no meta page is sound: %w", err)
	}
	w, err := walkPages(ctx, s.file, m)
	if err != nil {
		return err
	}
	w.Pair = func(bucket, key, value []byte, at int64) {
		if err := checkEntry(string(bucket), key, value); err != nil {
			w.fail(at, err)
		}
	}
	own := 0
	var foreign error
	w.Buckets(func(b page.Bucket) {
		of := partOf(b.Name)
		if of == 0 {
			if foreign == nil {
				foreign = &CorruptError{Offset: b.At, Err: fmt.Errorf("unknown bucket %q", b.Name)}
			}
			return
		}
		own++
		switch {
		case part == soundShape:
			w.Walk(b, page.Headers)
		case part != soundFree && part != of:
		case of&(soundKeys|soundLabels|soundSets) == 0:
			w.Walk(b, page.Keys)
		default:
			w.Walk(b, page.Values)
		}
	})
	if part == soundFree {
		w.Freelist()
	}
	if part == soundShape && own > 0 {
		w.Unaccounted()
	}
	// If the name of the dictionary of features is damaged, the dictionary seems never to have
	// been created, since that bucket is optional. If no bucket is ours, the file belongs to
	// another program, and is not damaged.
	if w.first == nil && own > 0 && foreign != nil {
		return foreign
	}
	return w.first
}

// partOf returns the part of the file that a bucket is, or 0 if databases of this package have
// no such bucket. The dictionary of features is part of the keys.
func partOf(name []byte) uint32 {
	if string(name) == string(bucketFeatures) {
		return soundKeys
	}
	for i, b := range rootBuckets {
		if string(b) == string(name) {
			return 1 << i
		}
	}
	return 0
}

// checkEntry verifies an entry of a bucket whose values the walk reads.
func checkEntry(bucket string, key, value []byte) error {
	switch bucket {
	case string(bucketKeys), string(bucketLabels), string(bucketFeatures):
		if len(key) > 8 && bucket == string(bucketFeatures) && key[8] == featureByID {
			return nil // checked against the entry of the name when it is used
		}
		if _, ok := entryNumber(bucket, key, value); !ok {
			return fmt.Errorf("bucket %q: checksum of an entry does not match", bucket)
		}
	case string(bucketSets):
		if _, err := decodeBlock("", key, value, true); err != nil {
			return err
		}
	}
	return nil
}

// An entry of the keys and labels buckets maps a name to a number: the number
// (8 bytes) and the CRC-32C of bucket, key and number (4 bytes), big-endian.
const entrySize = 12

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entryValue returns the value that maps key to n.
func entryValue(bucket string, key []byte, n uint64) []byte {
	v := binary.BigEndian.AppendUint64(make([]byte, 0, entrySize), n)
	return binary.BigEndian.AppendUint32(v, entrySum(bucket, key, v))
}

// entryNumber returns the number that key maps to; ok reports whether the value is valid.
func entryNumber(bucket string, key, value []byte) (n uint64, ok bool) {
	if len(value) != entrySize || len(key) < 9 || len(key) > 9+MaxKey {
		return 0, false
	}
	return binary.BigEndian.Uint64(value), binary.BigEndian.Uint32(value[8:]) == entrySum(bucket, key, value[:8])
}

func entrySum(bucket string, key, number []byte) uint32 {
	sum := crc32.Checksum([]byte(bucket), castagnoli)
	return crc32.Update(crc32.Update(sum, castagnoli, key), castagnoli, number)
}
