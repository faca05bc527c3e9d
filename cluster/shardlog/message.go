package shardlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/s2"

	"github.com/anndb/anndb/internal/wire"
)

// Message is an entry of a log: one of its fields is set. Applying it gives the same result on every node
// that has applied the messages before it.
type Message struct {
	Transaction *wire.Transaction `json:"transaction,omitempty"`
	// Versions makes those of the rows part of the transaction's result.
	Versions bool                `json:"versions,omitempty"`
	Create   *wire.NewCollection `json:"create,omitempty"`
	Drop     string              `json:"drop,omitempty"`
	Build    *Build              `json:"build,omitempty"`
}

// Build says that each replica builds an index, or drops it, in the background.
type Build struct {
	Collection string `json:"collection"`
	Index      string `json:"index"`
	Drop       bool   `json:"drop,omitempty"`
	wire.Build
}

// stored is the first line of the stored form of a message, which is compressed by S2. The rows of the
// operations follow, one after the other: as a part of the JSON each of them would be read several times.
type stored struct {
	Message

	Rows []int `json:"rows,omitempty"` // their lengths
}

// maxStored is the most that a message may have, decompressed.
const maxStored = 64 << 20

// encode returns the stored form. Errors: ErrTooLarge.
func (m *Message) encode() ([]byte, error) {
	s := stored{Message: *m}
	var rows [][]byte
	if t := m.Transaction; t != nil {
		s.Transaction = &wire.Transaction{If: t.If, Operations: slices.Clone(t.Operations)}
		for i := range s.Transaction.Operations {
			row := &s.Transaction.Operations[i].Row
			rows, s.Rows = append(rows, *row), append(s.Rows, len(*row))
			*row = nil
		}
	}
	head, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	all := bytes.Join(slices.Insert(rows, 0, append(head, '\n')), nil)
	if len(all) > maxStored {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(all), maxStored)
	}
	return s2.Encode(nil, all), nil
}

// decode reads the stored form, and returns its size when it is decompressed.
func decode(b []byte) (m Message, size int, err error) {
	n, err := s2.DecodedLen(b)
	if err == nil && n > maxStored {
		err = fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, n, maxStored)
	}
	var all []byte
	if err == nil {
		all, err = s2.Decode(nil, b)
	}
	if err != nil {
		return m, 0, err
	}
	head, rows, _ := bytes.Cut(all, []byte("\n"))
	var s stored
	if err := wire.Unmarshal(head, &s); err != nil {
		return m, 0, err
	}
	for i, n := range s.Rows {
		if s.Transaction == nil || i >= len(s.Transaction.Operations) || n < 0 || n > len(rows) {
			return m, 0, errors.New("the lengths of rows are wrong")
		}
		s.Transaction.Operations[i].Row, rows = rows[:n:n], rows[n:]
	}
	if len(rows) > 0 {
		return m, 0, errors.New("the lengths of rows are wrong")
	}
	return s.Message, len(all), nil
}
