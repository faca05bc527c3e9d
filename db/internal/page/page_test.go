package page

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// boltFile writes a file by bbolt with buckets of all shapes and free pages. It returns its
// bytes, its pairs by bucket and key, and bbolt's number of free pages.
func boltFile(t *testing.T) (data []byte, pairs map[string][]byte, free int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	put := func(bucket string, n, size int) error {
		return b.Update(func(tx *bbolt.Tx) error {
			x, err := tx.CreateBucketIfNotExists([]byte(bucket))
			for i := 0; err == nil && i < n; i++ {
				err = x.Put(fmt.Appendf(nil, "%05d", i), bytes.Repeat([]byte{byte(i)}, size))
			}
			return err
		})
	}
	err = errors.Join(
		put("deep", 5000, 40), put("empty", 0, 0), put("inline", 3, 10), put("large", 4, 30_000),
		put("deep", 900, 41), put("dropped", 300, 500),
		b.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("dropped")) }),
		put("inline", 1, 1),
	)
	pairs = map[string][]byte{}
	err = errors.Join(err, b.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, x *bbolt.Bucket) error {
			return x.ForEach(func(k, v []byte) error {
				pairs[string(name)+"/"+string(k)] = bytes.Clone(v)
				return nil
			})
		})
	}))
	stats := b.Stats()
	free = stats.FreePageN + stats.PendingPageN
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	if data, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return data, pairs, free
}

// walker returns a walker over the latest state of a file.
func walker(t *testing.T, data []byte, v Visitor) *Walker {
	t.Helper()
	metas := ReadMetas(bytes.NewReader(data))
	m, err := metas.Latest()
	if err == nil {
		err = m.Fits(int64(len(data)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return NewWalker(t.Context(), bytes.NewReader(data), int64(len(data)), m, v)
}

// TestWalk compares walks of a file in all modes with what bbolt reads.
func TestWalk(t *testing.T) {
	data, want, free := boltFile(t)
	for _, mode := range []Mode{Values, Keys, Headers} {
		got := map[string][]byte{}
		w := walker(t, data, Visitor{
			Report: func(page uint64, err error) { t.Errorf("mode %d: page %d: %v", mode, page, err) },
			Pair: func(bucket, key, value []byte, at int64) {
				k := string(bucket) + "/" + string(key)
				if got[k] = value; !bytes.HasPrefix(data[at:], want[k]) {
					t.Errorf("mode %d: the value of %s is not at %d", mode, k, at)
				}
			},
		})
		inline := 0
		w.Buckets(func(b Bucket) {
			if err := b.CheckHeader(); err != nil {
				t.Errorf("bucket %q: %v", b.Name, err)
			}
			if b.Root == 0 {
				inline++
			}
			w.Walk(b, mode)
		})
		if inline != 2 {
			t.Errorf("%d inline buckets, want 2", inline)
		}
		w.Unaccounted()
		switch mode {
		case Values:
			if !maps.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("%d pairs differ from the %d of bbolt", len(got), len(want))
			}
		case Keys:
			if len(got) != len(want) || got["deep/00007"] != nil {
				t.Errorf("%d keys, want %d without values", len(got), len(want))
			}
		case Headers:
			if len(got) != 0 {
				t.Errorf("%d pairs of pages whose headers were read", len(got))
			}
		}
	}
	w := walker(t, data, Visitor{Report: func(_ uint64, err error) { t.Error(err) }})
	if n := w.Freelist(); n != free {
		t.Errorf("%d free pages, bbolt says %d", n, free)
	}
}

// TestScan finds all pairs of the latest state without the tree, and nothing in a file that is
// all zeros.
func TestScan(t *testing.T) {
	data, want, _ := boltFile(t)
	clear(data[:8192])
	missing := map[string]bool{}
	for k, v := range want {
		_, key, _ := strings.Cut(k, "/")
		missing[key+string(v)] = true
	}
	scan := func(ctx context.Context) error {
		return Scan(ctx, bytes.NewReader(data), int64(len(data)), 4096, func(key, value []byte, at int64) {
			delete(missing, string(key)+string(value))
			if !bytes.HasPrefix(data[at:], value) {
				t.Errorf("the value of %s is not at %d", key, at)
			}
		})
	}
	if err := scan(t.Context()); err != nil || len(missing) > 0 {
		t.Errorf("%d pairs were not found, %v", len(missing), err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := scan(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestProblems walks damaged pages of 1 KiB; page 2 is the root bucket with the bucket "b",
// whose tree begins at page 4.
func TestProblems(t *testing.T) {
	le := binary.LittleEndian
	bucket := append(childOf(4, ""), make([]byte, 8)...)
	root := asBucket(makePage(2, Leaf, append([]byte("b"), bucket...)), 0)
	list := makePage(3, Freelist)
	patch := func(page []byte, at int, v byte) []byte {
		page[at] = v
		return page
	}
	cases := []struct {
		name, want string
		pages      [][]byte
	}{
		{"valid", "", [][]byte{root, list, makePage(4, Leaf, []byte("a1"), []byte("b2"))}},
		{"other page", "page says it is page 9", [][]byte{root, list, makePage(9, Leaf)}},
		{"type", "page type 0x10, want 0x3", [][]byte{root, list, makePage(4, Freelist)}},
		{"overflow", "run of 8 pages passes the end", [][]byte{root, list, patch(makePage(4, Leaf), 12, 7)}},
		{"key order", "leaf key 1 is out of order",
			[][]byte{root, list, makePage(4, Leaf, []byte("b1"), []byte("a2"))}},
		{"branch order", "branch key 1 is out of order",
			[][]byte{root, list, makePage(4, Branch, childOf(5, "m"), childOf(6, "a"))}},
		{"below its branch", "leaf key 0 is out of order", [][]byte{root, list,
			makePage(4, Branch, childOf(5, "a"), childOf(6, "m")), makePage(5, Leaf, []byte("a")),
			makePage(6, Leaf, []byte("b"))}},
		{"cycle", "page 4 is used twice",
			[][]byte{root, list, makePage(4, Branch, childOf(4, "a"))}},
		{"no children", "branch page without children", [][]byte{root, list, makePage(4, Branch)}},
		{"position", "leaf element 0 is not in its place",
			[][]byte{root, list, patch(makePage(4, Leaf, []byte("a1")), 20, 3)}},
		{"count", "a page with elements counts none",
			[][]byte{root, list, patch(makePage(4, Leaf, []byte("a1")), 10, 0)}},
		{"plain value", `plain value "v" among the root buckets`,
			[][]byte{makePage(2, Leaf, []byte("v1")), list}},
		{"bucket in a bucket", "leaf element 0 has flags 0x1",
			[][]byte{root, list, asBucket(makePage(4, Leaf, append([]byte("b"), bucket...)), 0)}},
		{"page number", "page number outside 2..4",
			[][]byte{root, list, makePage(4, Branch, childOf(77, "a"))}},
		{"neither free nor in use", "page 5 is neither free nor in use",
			[][]byte{root, list, makePage(4, Leaf), makePage(5, Leaf)}},
		{"free and in use", "page 4 is both free and in use", [][]byte{root,
			func() []byte {
				p := makePage(3, Freelist)
				p[10] = 1
				le.PutUint64(p[HeaderSize:], 4)
				return p
			}(), makePage(4, Leaf)}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			data := slices.Concat(make([]byte, 2048), slices.Concat(c.pages...))
			m := Meta{PageSize: 1024, Root: 2, Freelist: 3, High: uint64(len(data) / 1024)}
			var got error
			w := NewWalker(t.Context(), bytes.NewReader(data), int64(len(data)), m, Visitor{
				Pair: func(_, _, _ []byte, _ int64) {},
				Report: func(_ uint64, err error) {
					if got == nil {
						got = err
					}
				},
			})
			w.Buckets(func(b Bucket) { w.Walk(b, Values) })
			w.Unaccounted()
			if (got == nil) != (c.want == "") || got != nil && !strings.Contains(got.Error(), c.want) {
				t.Errorf("%v, want %q", got, c.want)
			}
		})
	}
}

// TestCheckHeader changes the fields of a bucket's entry that no reader uses.
func TestCheckHeader(t *testing.T) {
	inline := func() []byte { return makePage(0, Leaf, []byte("a1"))[:HeaderSize+ElementSize+2] }
	cases := []struct {
		name, want string
		bucket     Bucket
	}{
		{"tree", "", Bucket{Root: 7}},
		{"inline", "", Bucket{Inline: inline()}},
		{"counter", "its counter is at 3", Bucket{Root: 7, Sequence: 3}},
		{"page number", "but as page 5 with 0 more", Bucket{Inline: append([]byte{5}, inline()[1:]...)}},
		{"after an inline bucket", "35 bytes follow its header, want 34", Bucket{Inline: append(inline(), 0)}},
		{"after a tree's header", "1 bytes follow its header, want 0", Bucket{Root: 7, Inline: []byte{0}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := c.bucket.CheckHeader()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestReadMetas reads files with damaged meta pages, of different page sizes.
func TestReadMetas(t *testing.T) {
	file := func(size uint32) []byte {
		m := Meta{PageSize: size, Root: 3, Freelist: 2, High: 4, TxID: 8}
		data := append(metaBytes(m), make([]byte, int(size)-metaSize)...)
		m.TxID++
		return append(data, metaBytes(m)...)
	}
	for _, size := range []uint32{1 << 10, Size, 1 << 20} {
		m := ReadMetas(bytes.NewReader(file(size)))
		if last, err := m.Latest(); err != nil || last.TxID != 9 || len(m.Valid()) != 2 {
			t.Errorf("page size %d: %+v, %v", size, m, err)
		}
		for at, latest := range map[int]uint64{40: 9, int(size) + 40: 8} {
			data := file(size)
			data[at] ^= 1
			m := ReadMetas(bytes.NewReader(data))
			last, err := m.Latest()
			if err != nil || last.TxID != latest || len(m.Valid()) != 1 {
				t.Errorf("page size %d, damage at %d: %+v, %v", size, at, m, err)
			}
			if err := errors.Join(m.Err[:]...); !errors.Is(err, ErrDamaged) {
				t.Errorf("page size %d, damage at %d: %v", size, at, err)
			}
		}
	}
	newer := metaBytes(Meta{PageSize: Size, Root: 3, High: 4})
	newer[HeaderSize+4]++
	for want, data := range map[error][]byte{
		ErrForeign: make([]byte, 100), io.ErrUnexpectedEOF: make([]byte, 10), ErrVersion: sealed(newer),
	} {
		m := ReadMetas(bytes.NewReader(data))
		if _, err := m.Latest(); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	m := Meta{PageSize: 1024, High: 5}
	var e *Error
	if err := m.Fits(5119); !errors.As(err, &e) || e.Reason != ErrShort || m.Fits(5120) != nil {
		t.Errorf("5119 bytes for 5 pages of 1 KiB: %v", err)
	}
}
