package codec

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Encoders and decoders are pooled: creating one allocates a few hundred kilobytes
// to megabytes, reusing one costs almost nothing. None of them holds a goroutine.

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
	// The limit to the destination's capacity prevents a small block from
	// decompressing to more than its header states and Data allows.
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxRaw), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return err
	}
	return d
}}

// EncodeCompressed frames a payload as a zstd-compressed block of KindCold to be
// stored under key. The same payload gives the same bytes as long as the release of
// the compressor is the same.
//
// Errors: ErrTooLarge if the payload is longer than MaxRaw.
func EncodeCompressed(key []byte, h Header, payload []byte) ([]byte, error) {
	if len(payload) > MaxRaw {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(payload), MaxRaw)
	}
	pooled := encoders.Get()
	enc, ok := pooled.(*zstd.Encoder)
	if !ok {
		return nil, fmt.Errorf("codec: zstd encoder: %w", pooled.(error))
	}
	defer encoders.Put(enc)
	h.Kind, h.Flags = KindCold, FlagZstd
	h.Raw = uint64(len(payload))
	return seal(key, h, enc.EncodeAll(payload, nil)), nil
}

// Data returns the payload: the stored bytes themselves for a raw block, a new
// slice for a compressed one. limit is the largest payload, in bytes, that the
// caller accepts for a block of this kind. Data allocates at most limit bytes and at
// most the length in the header. Call Verify first.
//
// Errors: ErrCorrupt if the length in the header exceeds limit or, in a compressed
// block, MaxRaw, or if the frames do not decode to exactly that length.
func (b Block) Data(limit uint64) ([]byte, error) {
	compressed := b.Flags&FlagZstd != 0
	if compressed {
		limit = min(limit, MaxRaw)
	}
	if b.Raw > limit {
		return nil, fmt.Errorf("%w: %v block: payload of %d bytes, the limit is %d",
			ErrCorrupt, b.Kind, b.Raw, limit)
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
		return nil, fmt.Errorf("%w: %v block: %d bytes decompressed, the header states %d",
			ErrCorrupt, b.Kind, len(out), b.Raw)
	}
	return out, nil
}
