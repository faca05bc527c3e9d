package layout

import (
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/rows"
)

// FuzzChange: a change that decodes is its own encoding's.
func FuzzChange(f *testing.F) {
	for _, x := range []Change{
		{Revision: 1}, {Revision: 1 << 60, Cold: rows.Cold{Labels: []string{"a", "b"},
			Attributes: []attribute.Attribute{{Name: "price", Value: 2.5}}, Payload: []byte("payload")}},
	} {
		b, err := codec.Parse(EncodeChange(nil, &x))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b.Payload)
	}
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, p []byte) {
		x, err := DecodeChange(p)
		if err != nil {
			return
		}
		if len(x.Labels) > rows.MaxLabels || len(x.Payload) > rows.MaxPayload {
			t.Fatalf("%d labels and %d bytes", len(x.Labels), len(x.Payload))
		}
		b, err := codec.Parse(EncodeChange(nil, x))
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeChange(b.Payload)
		if err != nil || again.Revision != x.Revision || !again.Cold.Equal(&x.Cold) {
			t.Fatalf("%+v comes back as %+v, %v", x, again, err)
		}
	})
}
