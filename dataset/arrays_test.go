package dataset

import (
	"archive/zip"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// npzOf makes an archive of npy files named train, test and so on, by a method of compression.
func npzOf(t testing.TB, method uint16, files ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i, data := range files {
		w, err := z.CreateHeader(&zip.FileHeader{Name: []string{"train", "test"}[i] + ".npy", Method: method})
		if err == nil {
			_, err = w.Write(data)
		}
		must(t, err)
	}
	must(t, z.Close())
	return b.Bytes()
}

// archive makes an archive of npy files by their names.
func archive(t testing.TB, namesAndFiles ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(namesAndFiles); i += 2 {
		w, err := z.Create(namesAndFiles[i].(string) + ".npy")
		if err == nil {
			_, err = w.Write(namesAndFiles[i+1].([]byte))
		}
		must(t, err)
	}
	must(t, z.Close())
	return b.Bytes()
}

var (
	npyText1  = npyFile(1, "{'descr': '|S3', 'fortran_order': False, 'shape': (2, 1), }\n", []byte("abcdef"))
	npyStruct = npyFile(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 1), }\n", make([]byte, 8))
	npyFlat   = npyFile(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n", make([]byte, 8))
	npyBool   = npyFile(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 2), }\n", []byte{0, 1, 1, 0})
)

func TestBools(t *testing.T) {
	compare(t, mustLoad(t, "x", npyBool, Options{}), numbered([]float32{0, 1}, []float32{1, 0}))
}

func TestHalf(t *testing.T) {
	for bits, want := range map[uint16]float64{
		0: 0, 1: 0x1p-24, 0x03ff: 1023 * 0x1p-24, 0x0400: 0x1p-14, 0x3c00: 1, 0x3c01: 1 + 0x1p-10, 0xc000: -2,
		0x7bff: 65504, 0x7c00: math.Inf(1), 0xfc00: math.Inf(-1), 0x8000: math.Copysign(0, -1), 0x3555: 0.333251953125,
	} {
		if got := half(bits); math.Float32bits(got) != math.Float32bits(float32(want)) {
			t.Errorf("%#x is %v, want %v", bits, got, want)
		}
	}
	if v := half(0x7c01); v == v {
		t.Errorf("NaN is %v", v)
	}
}

// TestMembers: of an archive of several arrays one is read.
func TestMembers(t *testing.T) {
	two := npzOf(t, zip.Deflate, seedNPY, seedColumns)
	one := numbered([]float32{1, 2}, []float32{3, -4})
	compare(t, mustLoad(t, "x", two, Options{}), one)
	compare(t, mustLoad(t, "x", npzOf(t, zip.Store, seedNPY), Options{}), one)
	compare(t, mustLoad(t, "x", two, Options{Member: "train"}), one)
	columns := numbered([]float32{1, 3, 5}, []float32{2, 4, 6})
	compare(t, mustLoad(t, "x", npzOf(t, zip.Store, seedNPY, seedColumns), Options{Queries: true}), columns)
	compare(t, mustLoad(t, "x", seedColumns, Options{}), columns)
	for _, c := range []struct {
		data []byte
		o    Options
		says string
	}{
		{two, Options{Member: "tset"}, `no "tset", only "train", "test"`},
		{two, Options{Member: "test"}, "Fortran order"},
		{npzOf(t, zip.Store), Options{Format: FormatNPZ}, "no array"},
		// What cannot be read is named, and no other array takes its place.
		{archive(t, "train", npyText1, "test", seedNPY), Options{}, `train.npy: offset 10: number type "|S3"`},
		{archive(t, "test", npyText1, "train", seedNPY), Options{Queries: true}, "test.npy: offset 10: number type"},
		{archive(t, "train", npyStruct, "test", seedNPY), Options{}, "train.npy: offset 10: npy header"},
		{archive(t, "neighbors", seedNPY, "names", npyText1), Options{}, "which array?"},
		{archive(t, "neighbors", seedNPY), Options{}, "which array?"},
		{archive(t, "names", npyText1), Options{}, `"names" cannot be read: number type "|S3"`},
		{npzOf(t, zip.Store, []byte("x")), Options{}, "x: train.npy"},
		{zipped(t, two), Options{}, "compression"},
		{seedColumns[:len(seedColumns)-1], Options{}, "promises"},
	} {
		_, err := load(t, "x", c.data, c.o)
		if wantFormatError(t, err); !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q does not say %q", err, c.says)
		}
	}
	// Arrays that can be no records do not disturb.
	beside := archive(t, "names", npyText1, "emb", seedNPY, "structs", npyStruct, "n", npyFlat)
	compare(t, mustLoad(t, "x", beside, Options{}), one)
	if _, err := load(t, "x", seedNPY, Options{Member: "a"}); !errors.Is(err, ErrOption) {
		t.Error(err)
	}
	r, err := NewReader("x", bytes.NewReader(two), Options{})
	if err != nil || r.Schema().Member != "train" {
		t.Errorf("%+v, %v", r.Schema(), err)
	}
	// The pipe has neither a size nor places.
	if _, err := NewReader("x", io.MultiReader(bytes.NewReader(two)), Options{}); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// TestOneQuery: an array of one dimension is one query.
func TestOneQuery(t *testing.T) {
	flat := npyFile(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", le([]float32{1, 2}))
	compare(t, mustLoad(t, "x", flat, Options{Queries: true}), numbered([]float32{1, 2}))
	_, err := load(t, "x", flat, Options{})
	wantFormatError(t, err)
}

// TestManyColumns: an array in Fortran order is read in several blocks.
func TestManyColumns(t *testing.T) {
	const rows, dim = 5000, 1000 // 20 MB
	values := make([]float32, 0, rows*dim)
	for j := range dim {
		for i := range rows {
			values = append(values, float32(i*dim+j))
		}
	}
	dict := fmt.Sprintf("{'descr': '<f4', 'fortran_order': True, 'shape': (%d, %d), }\n", rows, dim)
	r, err := Open(tempFile(t, "x.npy", npyFile(1, dict, le(values))), Options{})
	must(t, err)
	defer r.Close()
	n := 0
	for rec, err := range All(r) {
		must(t, err)
		for j, v := range rec.Vector {
			if v != float32(n*dim+j) {
				t.Fatalf("row %d, column %d: %v", n, j, v)
			}
		}
		n++
	}
	if n != rows {
		t.Errorf("%d rows", n)
	}
}

// TestCompressions: zstd and bzip2 are recognised whatever the name.
func TestCompressions(t *testing.T) {
	want := numbered([]float32{1, 2}, []float32{3, 4})
	plain := []byte("1,2\n3,4\n")
	enc, err := zstd.NewWriter(nil)
	must(t, err)
	z := enc.EncodeAll(plain, nil)
	compare(t, mustLoad(t, "x", z, Options{}), want)
	compare(t, mustLoad(t, "x.csv.zst", append(enc.EncodeAll(plain[:4], nil), enc.EncodeAll(plain[4:], nil)...), Options{}), want)
	// printf '1,2\n3,4\n' | bzip2 | xxd -p
	b, err := hex.DecodeString("425a683931415926535993b70d0c0000025800001000043c00200030c00869b28823278bb9229c284849db868600")
	must(t, err)
	compare(t, mustLoad(t, "x", b, Options{}), want)
	for _, data := range [][]byte{z, b} {
		for n := 10; n < len(data); n++ {
			_, err := load(t, "x.csv", data[:n], Options{})
			wantFormatError(t, err)
		}
	}
	for _, name := range []string{"x.csv.zst", "x.csv.bz2"} {
		if _, err := Create(filepath.Join(t.TempDir(), name), Schema{Dim: 1}); !errors.Is(err, ErrOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// damage reads damaged copies of a file: each gives an error of the format, or records
// of the number and dimension of want; any that the file promises if want has none. It returns how many
// copies were read to the end.
func damage(t *testing.T, name string, data []byte, o Options, want Schema) (read int) {
	t.Helper()
	rng, copies := rand.New(rand.NewPCG(17, uint64(len(data)))), 1000
	if testing.Short() {
		copies = 100
	}
	for range copies {
		bad := slices.Clone(data)
		if rng.IntN(4) == 0 {
			bad = bad[:rng.IntN(len(bad))]
		} else {
			for range 1 + rng.IntN(3) {
				bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
			}
		}
		all, err := load(t, name, bad, o)
		if err == nil {
			read++
			if n := int64(len(all)); want.Dim > 0 && (n != want.Records || n > 0 && len(all[0].Vector) != want.Dim) {
				t.Errorf("%s: %d records of %d, %d values of %d", name, n, want.Records, len(all[0].Vector), want.Dim)
			}
		} else if f := (*FormatError)(nil); !errors.As(err, &f) {
			t.Fatalf("%s: not a FormatError: %v", name, err)
		}
	}
	return read
}

func TestDamagedArrays(t *testing.T) {
	for name, data := range map[string][]byte{
		"x.npy": seedNPY, "x.fbin": seedFbin, "x.npz": npzOf(t, zip.Deflate, seedNPY, seedColumns),
		"columns.npy": seedColumns, "stored.npz": npzOf(t, zip.Store, seedNPY),
	} {
		damage(t, name, data, Options{MaxDim: 4096}, Schema{})
	}
}

// python runs a script of Python in a folder of its own, with modules of Debian's packages.
func python(t *testing.T, modules, script string) (folder string) {
	t.Helper()
	dir := t.TempDir()
	for _, program := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(program, "-c", "import "+modules).Run() != nil {
			continue
		}
		cmd := exec.Command(program, "-c", script)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return dir
	}
	t.Skipf("SKIPPED: files of Python were not read: no python3 with %s", modules)
	return ""
}
