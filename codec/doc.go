// Package codec reads and writes the bytes on disk: framed, versioned, checksummed
// blocks, zero-copy column views over mapped memory, and string tables. FORMAT.md
// in this directory describes everything byte by byte.
//
// A block is a 64-byte header, a payload, and zeros up to a multiple of 16
// bytes. Its CRC-32C covers the key it is stored under, the header and the
// stored payload, so a block read back under a wrong key is as corrupt as one
// with a flipped bit. Parse checks all lengths, so that a reader can trust them;
// Block.Verify checks the checksum; Block.Data returns the payload, decompressed
// if it was stored compressed.
//
// The package depends on no other package of anndb and never panics on input it
// did not write: every decoder bounds its work by lengths it has checked.
package codec
