package serving

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

// The frames between a client and the server that runs its command. Each is a byte for its kind, four for
// the length of its content, the highest first, and the content. The server requests standard input when
// the command reads it: what the command leaves stays for the client's next one, and neither end stores
// more than a frame.
const (
	frameRequest   = 'c' // to the server, first: the request in JSON
	frameInput     = 'i' // to the server: some bytes of standard input
	frameInputEnd  = 'z' // to the server: the end of standard input, or the text of the error of reading it
	frameInterrupt = '!' // to the server
	frameRead      = 'r' // to the client: the command reads standard input
	frameOut       = 'o' // to the client: standard output
	frameErrs      = 'e' // to the client: standard error
	frameExit      = 'x' // to the client, last: a byte with the exit code
)

const (
	mostFrame   = 64 << 10 // bytes of content
	mostRequest = 32 << 20 // of the first frame: the command line and the environment, which systems bound
)

// frames is an end of a connection. Several goroutines may write, one reads.
type frames struct {
	net.Conn
	in   *bufio.Reader
	data bytes.Buffer // of the frame that was read last

	mu  sync.Mutex
	out []byte // a frame to write
}

func newFrames(c net.Conn, in *bufio.Reader) *frames { return &frames{Conn: c, in: in} }

// read returns the next frame, whose content has at most so many bytes and is valid until the next call.
// The error is io.EOF between two frames only.
func (f *frames) read(most int) (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(f.in, head[:]); err != nil {
		return 0, nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[1:]))
	if n > int64(most) {
		return 0, nil, fmt.Errorf("a frame of %d bytes, want %d at most", n, most)
	}
	f.data.Reset() // it grows with what arrives, not with what is announced
	if _, err = io.CopyN(&f.data, f.in, n); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return head[0], f.data.Bytes(), err
}

// write sends a frame, or several where data is longer than one may be.
func (f *frames) write(kind byte, data []byte) error {
	most := mostFrame
	if kind == frameRequest {
		most = mostRequest
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for first := true; first || len(data) > 0; first = false {
		part := data[:min(len(data), most)]
		data = data[len(part):]
		f.out = binary.BigEndian.AppendUint32(append(f.out[:0], kind), uint32(len(part)))
		f.out = append(f.out, part...)
		if _, err := f.Conn.Write(f.out); err != nil {
			return err
		}
	}
	return nil
}
