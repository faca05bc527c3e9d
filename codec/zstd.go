package codec

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Coders are pooled: one costs a few hundred kilobytes to megabytes to make
// and almost nothing to reuse, and none of them keeps a goroutine.

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
	// The limit to the destination's capacity is what stops a small block
	// from decompressing to more than its header promised and Data allowed.
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxRaw), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return err
	}
	return d
}}

// EncodeCompressed frames a payload as a zstd-compressed block of KindCold to be
// stored under key. The same payload gives the same bytes with the same release
// of the compressor.
//
// Errors: ErrKind for another kind, ErrTooLarge when the payload is longer than
// MaxRaw.
func EncodeCompressed(key []byte, h Header, payload []byte) ([]byte, error) {
	if h.Kind != KindCold {
		return nil, fmt.Errorf("%w: block of kind %v", ErrKind, h.Kind)
	}
	if len(payload) > MaxRaw {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(payload), MaxRaw)
	}
	pooled := encoders.Get()
	enc, ok := pooled.(*zstd.Encoder)
	if !ok {
		return nil, fmt.Errorf("codec: zstd encoder: %w", pooled.(error))
	}
	defer encoders.Put(enc)
	h.Flags = FlagZstd
	h.Raw = uint64(len(payload))
	return seal(key, h, enc.EncodeAll(payload, nil)), nil
}

// Data returns the payload: the stored bytes themselves for a raw block, a
// fresh slice for a compressed one. limit is the most bytes the caller accepts
// for a block of this kind; no more than that, and no more than the header
// says, is ever allocated for the payload. Call Verify first.
//
// Errors: ErrCorrupt when the header promises more than limit or, compressed,
// MaxRaw, or when the frames do not decode to exactly what it promises.
func (b Block) Data(limit uint64) ([]byte, error) {
	compressed := b.Flags&FlagZstd != 0
	if compressed {
		limit = min(limit, MaxRaw)
	}
	if b.Raw > limit {
		return nil, fmt.Errorf("%w: %v block: payload of %d bytes, the limit is %d", ErrCorrupt, b.Kind, b.Raw, limit)
	}
	if !compressed {
		return b.Payload, nil
	}
	pooled := decoders.Get()
	dec, ok := pooled.(*zstd.Decoder)
	if !ok {
		return nil, fmt.Errorf("codec: zstd decoder: %w", pooled.(error))
	}
	defer decoders.Put(dec)
	out, err := dec.DecodeAll(b.Payload, make([]byte, 0, b.Raw))
	if err != nil {
		return nil, fmt.Errorf("%w: %v block: zstd: %w", ErrCorrupt, b.Kind, err)
	}
	if uint64(len(out)) != b.Raw {
		return nil, fmt.Errorf("%w: %v block: %d bytes decompressed, header says %d", ErrCorrupt, b.Kind, len(out), b.Raw)
	}
	return out, nil
}
