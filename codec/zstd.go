package codec

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// MaxRaw is the largest payload a compressed block may decompress to, in
// bytes, whatever its header claims.
const MaxRaw = 1 << 28

var encoders = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return err
	}
	return e
}}

var decoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxRaw))
	if err != nil {
		return err
	}
	return d
}}

// EncodeCompressed frames a payload as a zstd-compressed block to be stored
// under key: for cold data only, since readers must decompress it.
func EncodeCompressed(key []byte, h Header, payload []byte) ([]byte, error) {
	if len(payload) > MaxRaw {
		return nil, fmt.Errorf("codec: payload of %d bytes, a compressed block holds %d", len(payload), MaxRaw)
	}
	pooled := encoders.Get()
	enc, ok := pooled.(*zstd.Encoder)
	if !ok {
		return nil, fmt.Errorf("codec: zstd: %w", pooled.(error))
	}
	defer encoders.Put(enc)
	h.Flags |= FlagZstd
	h.Raw = uint64(len(payload))
	return seal(key, h, enc.EncodeAll(payload, nil)), nil
}

// Data returns the payload: the stored bytes themselves for a raw block, a
// fresh slice for a compressed one. It never produces more than limit bytes;
// a block that claims or decodes to another length than its header says is
// corrupt. Call Verify first.
func (b Block) Data(limit uint64) ([]byte, error) {
	if b.Raw > limit || b.Raw > MaxRaw && b.Flags&FlagZstd != 0 {
		return nil, fmt.Errorf("%w: payload of %d bytes, the limit is %d", ErrCorrupt, b.Raw, min(limit, MaxRaw))
	}
	if b.Flags&FlagZstd == 0 {
		return b.Payload, nil
	}
	pooled := decoders.Get()
	dec, ok := pooled.(*zstd.Decoder)
	if !ok {
		return nil, fmt.Errorf("codec: zstd: %w", pooled.(error))
	}
	defer decoders.Put(dec)
	// The buffer grows with what really comes out, not with what the header
	// promises: a small damaged block must not reserve a large one.
	out, err := dec.DecodeAll(b.Payload, make([]byte, 0, min(b.Raw, 16*uint64(len(b.Payload))+64)))
	if err != nil {
		return nil, fmt.Errorf("%w: %v block: zstd: %v", ErrCorrupt, b.Kind, err)
	}
	if uint64(len(out)) != b.Raw {
		return nil, fmt.Errorf("%w: %v block: %d bytes decompressed, header says %d", ErrCorrupt, b.Kind, len(out), b.Raw)
	}
	return out, nil
}
