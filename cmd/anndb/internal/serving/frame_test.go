package serving

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"testing"
)

// FuzzFrames: whatever arrives, frames are within their bound, end at the end of what arrives, and are
// those that write sends.
func FuzzFrames(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 100
		in := newFrames(nil, bufio.NewReader(bytes.NewReader(data)))
		sink := &sink{}
		out := newFrames(sink, nil)
		for {
			kind, content, err := in.read(most)
			if len(content) > most || int64(in.data.Cap()) > int64(len(data))+2*bytes.MinRead+2*most {
				t.Fatalf("%d bytes in memory of %d", in.data.Cap(), len(data))
			}
			if err != nil {
				rest := data[sink.Len():]
				if (err == io.EOF) != (len(rest) == 0) || !bytes.Equal(sink.Bytes(), data[:sink.Len()]) {
					t.Fatalf("%v with %d bytes left", err, len(rest))
				}
				return
			}
			if err := out.write(kind, content); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// sink is a connection that keeps what is written.
type sink struct {
	net.Conn
	bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) { return s.Buffer.Write(p) }
func (s *sink) Read(p []byte) (int, error)  { return s.Buffer.Read(p) }

// TestLongFrames: what is longer than a frame arrives in several.
func TestLongFrames(t *testing.T) {
	sink := &sink{}
	want := bytes.Repeat([]byte("0123456789"), 3*mostFrame/10)
	if err := newFrames(sink, nil).write(frameOut, want); err != nil {
		t.Fatal(err)
	}
	in, got := newFrames(nil, bufio.NewReader(&sink.Buffer)), []byte(nil)
	for {
		kind, data, err := in.read(mostFrame)
		if err == io.EOF {
			break
		}
		if kind != frameOut || err != nil {
			t.Fatal(kind, err)
		}
		got = append(got, data...)
	}
	if !bytes.Equal(got, want) {
		t.Error("other bytes arrived")
	}
}
