module github.com/anndb/anndb/torture

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/anndb/anndb v0.0.0
	github.com/hanwen/go-fuse/v2 v2.12.1
	go.etcd.io/bbolt v1.5.0
	go.etcd.io/gofail v0.2.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/RoaringBitmap/roaring/v2 v2.30.0 // indirect
	github.com/andybalholm/brotli v1.2.8 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/kljensen/snowball v0.10.0 // indirect
	github.com/mschoch/smat v0.2.0 // indirect
	golang.org/x/sync v0.20.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
)

replace github.com/anndb/anndb => ../

tool go.etcd.io/gofail
