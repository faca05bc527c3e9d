package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/crc64"
	"image"
	"image/jpeg"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/vector"
)

// set is a corpus with two sets of queries that it does not hold: test rows,
// on which all figures are quoted, and validation rows, on which settings are
// chosen.
type set struct {
	name string
	// metric is L2 or Cosine; for Cosine all rows have unit length.
	metric vector.Metric
	dim    int
	base   []float32
	test   []float32
	valid  []float32
	// whole says that all coordinates are whole numbers from 0 to 255.
	whole bool
}

func (s *set) rows() int { return len(s.base) / s.dim }

// queryRows is how many rows the test and validation queries have.
const queryRows = 1000

var errSet = errors.New("unknown data set")

// setNames are the names that loadSet takes.
func setNames() []string {
	return []string{"fashion-mnist", "mnist", "glove-100d", "glove-100d-cosine", "generated-10k", "generated-100k", "generated-1m", "cifar10-luma"}
}

// loadSet reads a data set from the data folder, or makes it.
func loadSet(data, name string) (*set, error) {
	s := &set{name: name, metric: vector.L2}
	var err error
	switch name {
	case "fashion-mnist", "mnist":
		err = s.idx(filepath.Join(data, name))
	case "glove-100d", "glove-100d-cosine":
		if err = s.glove(filepath.Join(data, "glove-100d")); err == nil && name == "glove-100d-cosine" {
			s.metric = vector.Cosine
			for _, rows := range [][]float32{s.base, s.test, s.valid} {
				normalise(rows, s.dim)
			}
		}
	case "cifar10-luma":
		err = s.cifar(filepath.Join(data, "cifar10-jpeg"))
	default:
		n, ok := map[string]int{"generated-10k": 10_000, "generated-100k": 100_000, "generated-1m": 1_000_000}[name]
		if !ok {
			return nil, fmt.Errorf("%w: %s (want one of %s)", errSet, name, strings.Join(setNames(), ", "))
		}
		g := newGenerator(1)
		s.dim, s.base, s.test, s.valid = genDim, g.rows(1, n), g.rows(2, queryRows), g.rows(3, queryRows)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.whole = wholeBytes(s.base) && wholeBytes(s.test) && wholeBytes(s.valid)
	return s, nil
}

// idx reads MNIST's files: the corpus is the training part, the test queries
// are the first 1,000 test rows, validation the next 1,000.
func (s *set) idx(dir string) (err error) {
	if s.base, s.dim, err = read(filepath.Join(dir, "train-images-idx3-ubyte.gz"), 0); err != nil {
		return err
	}
	q, _, err := read(filepath.Join(dir, "t10k-images-idx3-ubyte.gz"), 2*queryRows)
	if err != nil {
		return err
	}
	s.test, s.valid = q[:queryRows*s.dim], q[queryRows*s.dim:]
	return nil
}

// glove reads the word vectors. There are 1,000 queries only, so 1,000 rows
// leave the corpus and are the validation queries; the file goes from frequent
// words to rare ones, so they are taken at equal steps, for the queries are a
// random part of all words.
func (s *set) glove(dir string) error {
	all, dim, err := read(filepath.Join(dir, "base.npy.gz"), 0)
	if err != nil {
		return err
	}
	if s.test, _, err = read(filepath.Join(dir, "queries.npy.gz"), queryRows); err != nil {
		return err
	}
	s.dim = dim
	step := len(all) / dim / queryRows
	if step < 2 {
		return fmt.Errorf("too few rows: %d", len(all)/dim)
	}
	for i := 0; i < len(all)/dim; i++ {
		row := all[i*dim : (i+1)*dim]
		if i%step == step/2 && len(s.valid) < queryRows*dim {
			s.valid = append(s.valid, row...)
		} else {
			s.base = append(s.base, row...)
		}
	}
	return nil
}

// cifar reads the luma planes of CIFAR-10 as JPEG: training rows, and of every
// tenth test row (they are sorted by class) the first 1,000 in turn as test and
// the next file as validation.
func (s *set) cifar(dir string) error {
	s.dim = 32 * 32
	base, err := lumas(filepath.Join(dir, "cifar10-jpeg-train30k.tar.gz"))
	if err != nil {
		return err
	}
	test, err := lumas(filepath.Join(dir, "cifar10-jpeg-test.tar.gz"))
	if err != nil {
		return err
	}
	s.base = base
	for i := range queryRows {
		at := i * 10 * s.dim
		if at+2*s.dim > len(test) {
			return fmt.Errorf("too few test images: %d", len(test)/s.dim)
		}
		s.test = append(s.test, test[at:at+s.dim]...)
		s.valid = append(s.valid, test[at+s.dim:at+2*s.dim]...)
	}
	return nil
}

// read is all rows of a file, or the first max.
func read(path string, max int64) ([]float32, int, error) {
	r, err := dataset.Open(path, dataset.Options{Max: max})
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	var out []float32
	for rec, err := range dataset.All(r) {
		if err != nil {
			return nil, 0, err
		}
		out = append(out, rec.Vector...)
	}
	if max > 0 && int64(len(out)) != max*int64(r.Schema().Dim) {
		return nil, 0, fmt.Errorf("%s: fewer than %d rows", path, max)
	}
	return out, r.Schema().Dim, nil
}

// lumas are the luma planes of the 32 x 32 images of an archive, in its order.
func lumas(path string) ([]float32, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var out []float32
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if h.Typeflag != tar.TypeReg || !strings.HasSuffix(h.Name, ".jpg") && !strings.HasSuffix(h.Name, ".jpeg") {
			continue
		}
		img, err := jpeg.Decode(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, h.Name, err)
		}
		var plane []byte
		var stride int
		switch p := img.(type) {
		case *image.YCbCr:
			plane, stride = p.Y, p.YStride
		case *image.Gray:
			plane, stride = p.Pix, p.Stride
		}
		if plane == nil || img.Bounds() != image.Rect(0, 0, 32, 32) {
			return nil, fmt.Errorf("%s: %s: not a 32 x 32 image with luma", path, h.Name)
		}
		for y := range 32 {
			for _, v := range plane[y*stride : y*stride+32] {
				out = append(out, float32(v))
			}
		}
	}
}

func normalise(rows []float32, dim int) {
	for at := 0; at < len(rows); at += dim {
		r := rows[at : at+dim]
		f := vector.InverseNorm(r)
		for j := range r {
			r[j] *= f
		}
	}
}

func wholeBytes(rows []float32) bool {
	for _, x := range rows {
		if x < 0 || x > 255 || x != float32(uint8(x)) {
			return false
		}
	}
	return true
}

// quantised are the rows of a part of the set as bytes: lossless where they are
// whole bytes; otherwise one scale for all coordinates, which keeps the order
// of L2 distances but for rounding, from the range that holds all but one in
// 10,000 of the corpus's values.
func (s *set) quantised(rows []float32) []byte {
	lo, scale := float32(0), float32(1)
	if !s.whole {
		var hi float32
		lo, hi = bulk(s.base)
		scale = 255 / (hi - lo)
	}
	out := make([]byte, len(rows))
	for i, x := range rows {
		out[i] = byte(math.RoundToEven(float64(min(max((x-lo)*scale, 0), 255))))
	}
	return out
}

// bulk is the range that holds all but one in 10,000 values, found by a
// histogram.
func bulk(x []float32) (lo, hi float32) {
	lo, hi = x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	const bins = 1 << 16
	counts := make([]int, bins)
	step := (hi - lo) / (bins - 1)
	if step == 0 {
		return lo, lo + 1
	}
	for _, v := range x {
		counts[min(bins-1, int((v-lo)/step))]++
	}
	cut := len(x) / 20_000
	a, b := 0, bins-1
	for sum := counts[a]; sum <= cut; sum += counts[a] {
		a++
	}
	for sum := counts[b]; sum <= cut; sum += counts[b] {
		b--
	}
	return lo + float32(a)*step, lo + float32(b+1)*step
}

// checksum tells whether files of a cache are of these rows.
func (s *set) checksum() string {
	h := crc64.New(crc64.MakeTable(crc64.ECMA))
	for _, rows := range [][]float32{s.base, s.test, s.valid} {
		h.Write(raw(rows)) // a hash never fails
	}
	return fmt.Sprintf("%d %016x", s.dim, h.Sum64())
}

// raw is the memory of rows.
func raw(rows []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&rows[0])), len(rows)*4)
}

// files are the raw files that children read, by slot and type.
type files struct {
	dir string
	set *set
}

// path is the file of a slot (base, test, valid) in a type (f32, u8), written
// if it is not there.
func (f *files) path(slot, kind string) (string, int, error) {
	rows := map[string][]float32{"base": f.set.base, "test": f.set.test, "valid": f.set.valid}[slot]
	n := len(rows) / f.set.dim
	path := filepath.Join(f.dir, slot+"."+kind)
	width := map[string]int{"f32": 4, "u8": 1}[kind]
	if st, err := os.Stat(path); err == nil && st.Size() == int64(len(rows)*width) {
		return path, n, nil
	}
	data := raw(rows)
	if kind == "u8" {
		data = f.set.quantised(rows)
	}
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return "", 0, err
	}
	return path, n, os.Rename(path+".new", path)
}
