package db

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
)

// TestDamagedBucketHeaders flips bits of what the root bucket says of the
// buckets, one at a time: elements and headers of buckets with pages of their
// own and of such as are stored there, fields among them that no answer depends
// on. Each is found, by opening or by Check.
func TestDamagedBucketHeaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.anndb")
	d, err := Open(t.Context(), path, nil)
	must(t, err)
	ctx := t.Context()
	err = errorsOf(
		func() error { return create(ctx, d, "s", Schema{Named: true}) },
		func() error {
			return d.Update(ctx, func(b *Tx) error {
				for i := range 5 {
					features := []Feature{{Name: "x", Value: 1}, {Name: fmt.Sprint("y", i), Value: 2}}
					if err := b.Collection("s").Put(Row{Key: fmt.Append(nil, i), Labels: []string{"a", fmt.Sprint(i)}, Features: features}); err != nil {
						return err
					}
				}
				return nil
			})
		},
		d.Close,
	)
	must(t, err)
	data, err := os.ReadFile(path)
	must(t, err)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	m := latestOf(t, data)
	le := binary.LittleEndian
	at := int(m.Root) * layout.PageSize
	inline, tried := 0, 0
	for i := range int(le.Uint16(data[at+10:])) {
		e := at + page.HeaderSize + i*page.ElementSize
		value := e + int(le.Uint32(data[e+4:])) + int(le.Uint32(data[e+8:]))
		parts := [][2]int{{e, e + page.ElementSize}, {value, value + 16}}
		if le.Uint64(data[value:]) == 0 {
			inline++
			parts[1][1] += page.HeaderSize
		}
		for _, p := range parts {
			for b := p[0]; b < p[1]; b++ {
				tried++
				flipped := data[b] ^ 1<<(b%8)
				if _, err := f.WriteAt([]byte{flipped}, int64(b)); err != nil {
					t.Fatal(err)
				}
				d, err := Open(ctx, path, &Options{ReadOnly: true, MapReserve: 1 << 30})
				if err == nil {
					err = errors.Join(d.Check(context.Background(), nil, nil), d.Close())
				}
				if !errors.Is(err, ErrCorrupt) && !errors.Is(err, fail.Truncated) && !errors.Is(err, ErrNotDatabase) {
					t.Errorf("bucket %d, byte %d from %d on: %v", i, b-p[0], p[0]-at, err)
				}
				if _, err := f.WriteAt(data[b:b+1], int64(b)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if inline == 0 || tried < 200 {
		t.Errorf("%d buckets stored in the root, %d flips", inline, tried)
	}
}
