package attribute

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTable: a table gives back its entries, and finds the rows of a range of values as a scan does.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(
			rapid.Map(rapid.IntRange(-3, 3), func(i int) any { return int64(i) }),
			rapid.Map(rapid.StringN(0, 2, 4), func(s string) any { return s }),
			rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		), 0, 40).Draw(t, "values")
		var entries []Entry
		for row, v := range values {
			entries = append(entries, Entry{AppendKey(nil, v), uint16(row)})
		}
		slices.SortFunc(entries, Entry.Compare)
		table, err := OpenTable(EncodeTable(entries))
		if err != nil {
			t.Fatal(err)
		}
		if err := table.Validate(len(values)); err != nil {
			t.Fatal(err)
		}
		same := func(a, b Entry) bool { return bytes.Equal(a.Key, b.Key) && a.Row == b.Row }
		back, err := table.AppendEntries(nil, func(uint16) bool { return true })
		if err != nil || !slices.EqualFunc(back, entries, same) {
			t.Fatalf("%v, %v, want %v", back, err, entries)
		}
		for _, r := range []Range{All(), Equal(int64(1)), AtMost(int64(1)), Greater("a"), Prefix("a"), Equal(true)} {
			got, err := table.Of(table.Find(r))
			if err != nil {
				t.Fatal(err)
			}
			var want []uint16
			for _, e := range entries {
				if r.Contains(e.Key) {
					want = append(want, e.Row)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%q: rows %v, want %v", r, got, want)
			}
		}
	})
}

// FuzzTable opens any bytes as a table: nothing panics, and what is valid is its own encoding.
func FuzzTable(f *testing.F) {
	for _, n := range []int{0, 1, 5} {
		var entries []Entry
		for i := range n {
			entries = append(entries, Entry{AppendKey(nil, fmt.Sprint(i/2)), uint16(i)})
		}
		f.Add(EncodeTable(entries))
	}
	f.Add([]byte{1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		table, err := OpenTable(p)
		if err != nil {
			return
		}
		for _, r := range []Range{All(), Equal("1"), {[]byte{9}, []byte{1}}} {
			rows, _ := table.Of(table.Find(r))
			if len(rows) > table.Rows() {
				t.Fatalf("%d rows of %d", len(rows), table.Rows())
			}
		}
		all, err := table.AppendEntries(nil, func(uint16) bool { return true })
		if table.Validate(Span) != nil {
			return
		}
		if again := EncodeTable(all); err != nil || !bytes.Equal(again, p) {
			t.Fatalf("%x comes back as %x, %v", p, again, err)
		}
	})
}

// FuzzAttributes decodes any bytes as the attributes of a row: what decodes is its own encoding.
func FuzzAttributes(f *testing.F) {
	all, err := Set(map[string]any{"a": 1, "b": 2.5, "c": "x", "d": true}, time.Unix(1e9, 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(Append(nil, all))
	f.Add([]byte{1, 0, typeInt, 2})
	f.Fuzz(func(t *testing.T, p []byte) {
		all, rest, err := Decode(p)
		if err != nil {
			return
		}
		again, none, err := Decode(Append(nil, all))
		if err != nil || len(none) > 0 || !Same(again, all) || len(rest) >= len(p) {
			t.Fatalf("%v comes back as %v, %v", all, again, err)
		}
		for _, a := range all {
			AppendKey(nil, a.Value)
		}
	})
}
