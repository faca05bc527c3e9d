package shardlog

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// messages are of each kind, with rows that are JSON over several lines, empty and none.
var messages = []Message{
	{Drop: "c"},
	{Create: &wire.NewCollection{Name: "c", Schema: db.Schema{Dim: 2}}},
	{Transaction: &wire.Transaction{Operations: []wire.Operation{}}},
	{Versions: true, Transaction: &wire.Transaction{
		If: []wire.Condition{{Collection: "c", Key: wire.Key{Text: "a"}, Version: "1"}},
		Operations: []wire.Operation{
			{Op: wire.Put, Collection: "c", Key: wire.Key{Text: "a"}, Row: json.RawMessage("{\n\"key\": \"a\"\n}")},
			{Op: wire.Delete, Collection: "c", Key: wire.Key{Bytes: []byte{0xff}}},
			{Op: wire.Insert, Collection: "c", Row: json.RawMessage(strings.Repeat(" ", 1<<16) + `{"key":"b"}`)},
		},
	}},
}

func TestMessages(t *testing.T) {
	for i, m := range messages {
		want, _ := json.Marshal(m)
		b, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if now, _ := json.Marshal(m); string(now) != string(want) {
			t.Errorf("message %d was changed to %s", i, now)
		}
		got, _, err := decode(b)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if again, _ := json.Marshal(got); string(again) != string(want) {
			t.Errorf("message %d: %s, want %s", i, again, want)
		}
	}
}

// FuzzMessage decodes bytes, compressed and as they are.
func FuzzMessage(f *testing.F) {
	for _, m := range messages {
		b, err := m.encode()
		if err != nil {
			f.Fatal(err)
		}
		all, err := s2.Decode(nil, b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(all)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, stored := range [][]byte{b, s2.Encode(nil, b)} {
			m, _, err := decode(stored)
			if err != nil {
				continue
			}
			again, err := m.encode()
			if err != nil {
				t.Fatal(err)
			}
			if got, _, err := decode(again); err != nil || !reflect.DeepEqual(m, got) {
				t.Fatalf("%+v, %v, want %+v", got, err, m)
			}
		}
	})
}
