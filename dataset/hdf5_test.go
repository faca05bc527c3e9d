package dataset

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wantHDF5 checks the records of a file that testdata/hdf5.py writes.
func wantHDF5(t *testing.T, path string) {
	t.Helper()
	name := filepath.Base(path)
	r, err := Open(path, Options{})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer r.Close()
	all, err := readAll(t, r)
	rows, dim, first := 40, 6, -120
	for prefix, n := range map[string]int{"many": 20000, "few": 1100} {
		if strings.HasPrefix(name, prefix) {
			rows, dim, first = n, 2, 0
		}
	}
	if strings.HasPrefix(name, "type-unsigned") {
		first = 0
	}
	s := r.Schema()
	if err != nil || len(all) != rows || s.Dim != dim || s.Distance != "angular" || s.Format != FormatHDF5 {
		t.Errorf("%s: %d records, %+v, %v", name, len(all), s, err)
		return
	}
	for i, rec := range all {
		for j, v := range rec.Vector {
			if v != float32(i*dim+j+first) {
				t.Fatalf("%s: row %d is %v", name, i, rec.Vector)
			}
		}
	}
}

// TestHDF5 reads files of h5py that are committed.
func TestHDF5(t *testing.T) {
	for _, path := range filesHDF5(t) {
		wantHDF5(t, path)
	}
	ann := filepath.Join("testdata", "hdf5", "ann.h5")
	for _, c := range []struct {
		o      Options
		member string
		rows   int
		says   string
	}{
		{Options{}, "train", 40, ""},
		{Options{Queries: true}, "test", 5, ""},
		{Options{Member: "/neighbors"}, "neighbors", 5, ""},
		{Options{Member: "none"}, "", 0, `no "none", only "distances", "neighbors", "test", "train"`},
		{Options{MaxDim: 5}, "", 0, "more than 5"},
	} {
		r, err := Open(ann, c.o)
		if c.says != "" {
			if wantFormatError(t, err); !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q does not say %q", err, c.says)
			}
			continue
		}
		must(t, err)
		all, err := readAll(t, r)
		if err != nil || len(all) != c.rows || r.Schema().Member != c.member {
			t.Errorf("%+v: %d records of %s, %v", c.o, len(all), r.Schema().Member, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// filesHDF5 returns the committed files.
func filesHDF5(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "hdf5", "*.h5"))
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	return files
}

// TestH5py: what h5py writes is read equal: types, layouts, filters, indexes of chunks, groups.
func TestH5py(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("testdata", "hdf5.py"))
	must(t, err)
	dir := python(t, "h5py, numpy", string(script))
	files, err := filepath.Glob(filepath.Join(dir, "*.h5"))
	if err != nil || len(files) < 40 {
		t.Fatal(len(files), err)
	}
	for _, path := range files {
		wantHDF5(t, path)
	}
	// What cannot be read is named, and found among many links.
	long := func(i int) string { return fmt.Sprint("link ", i, strings.Repeat("-", 250)) }
	for member, says := range map[string]string{
		"names": "strings", "complex": "structs", "number": "scalar", "flag": "one dimension",
		long(0): "scalar", long(3999): "scalar", long(1): "soft link",
	} {
		file := "others.h5"
		if strings.HasPrefix(member, "link") {
			file = "longlinks.h5"
		}
		_, err := Open(filepath.Join(dir, file), Options{Member: member})
		if wantFormatError(t, err); !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %q does not say %q", member, err, says)
		}
	}
}

// TestOtherHDF5: what cannot be read is named, with how it is converted, and no other array is read in its
// place; it does not disturb the others. The files are of h5py, by testdata/hdf5.py.
func TestOtherHDF5(t *testing.T) {
	for _, c := range []struct {
		file string
		o    Options
		says string // "": the array is read
	}{
		{"beside", Options{Member: "emb"}, ""},
		{"beside", Options{Member: "soft"}, "soft link, which is not followed"},
		{"beside", Options{Member: "names"}, "names cannot be read: its elements are strings of fixed length"},
		{"beside", Options{Member: "tags"}, "tags cannot be read: its elements are strings of fixed length"},
		{"beside", Options{Member: "texts"}, "strings or lists of variable length"},
		{"beside", Options{Member: "lists"}, "strings or lists of variable length"},
		{"beside", Options{Member: "structs"}, "structs"},
		{"beside", Options{Member: "colors"}, "an enumeration"},
		{"beside", Options{Member: "ordered"}, "object header of version 2, and only 1 is read (convert the file"},
		{"beside", Options{Member: "compact"}, "its layout is compact, and only contiguous and chunked ones are read (copy"},
		{"beside", Options{Member: "sums"}, "the filter fletcher32, and only gzip and shuffle are read (copy"},
		{"beside", Options{}, `"compact" cannot be read: its layout is compact`},
		{"lzf", Options{}, "train cannot be read: its chunks have the filter lzf"},
		{"lzf", Options{Queries: true}, ""},
		{"offset", Options{}, `"emb" cannot be read: its chunks have the filter scale-offset`},
		{"test", Options{}, ""},
		{"test", Options{Queries: true}, "test cannot be read: its chunks have the filter lzf"},
		{"link", Options{}, "links that are ordered or external"},
		{"latest", Options{}, "superblock version 3, and only 0 is read (convert the file: h5repack --low=0 --high=1"},
		{"user", Options{Format: FormatHDF5}, "no HDF5 signature"},
		{"shared", Options{}, "train cannot be read: its description is shared"},
		{"bool", Options{}, ""},
	} {
		r, err := Open(filepath.Join("testdata", "hdf5", "other", c.file+".h5"), c.o)
		if c.says != "" {
			if wantFormatError(t, err); !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %+v: %q does not say %q", c.file, c.o, err, c.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s, %+v: %v", c.file, c.o, err)
			continue
		}
		all, err := readAll(t, r)
		if err != nil || len(all) == 0 || len(all[0].Vector) != 6 {
			t.Errorf("%s, %+v: %d records, %v", c.file, c.o, len(all), err)
		}
		for i, rec := range all {
			for j, v := range rec.Vector {
				want := float32(6*i + j - 120)
				if c.file == "bool" {
					want = float32(j % 2)
				}
				if v != want {
					t.Fatalf("%s: row %d is %v", c.file, i, rec.Vector)
				}
			}
		}
		must(t, r.Close())
	}
}

// TestSetsHDF5: sets of numbers are sparse records.
func TestSetsHDF5(t *testing.T) {
	path := filepath.Join("testdata", "hdf5", "other", "sets.h5")
	data, err := os.ReadFile(path)
	must(t, err)
	_, err = load(t, "x", data, Options{}) // set 2 has a number twice
	f := wantFormatError(t, err)
	if f.Record != 2 || !f.Skippable || !strings.Contains(f.Error(), "7 is given twice") {
		t.Error(f)
	}
	r, err := Open(path, Options{Kind: Sparse, Reject: func(*FormatError) error { return nil }})
	must(t, err)
	defer r.Close()
	var all []Record
	for rec, err := range All(r) {
		must(t, err)
		all = append(all, copyOf(rec))
	}
	compare(t, all, []Record{record("0", "", 1, 1, 2, 1, 5, 1), record("1", ""), record("3", "", 3, 1)})
	if s := r.Schema(); s.Distance != "jaccard" || s.Kind != Sparse || s.Member != "train" {
		t.Errorf("%+v", s)
	}
	compare(t, mustLoad(t, "x", data, Options{Queries: true}), []Record{record("0", "", 1, 1)})
	for _, o := range []Options{{Kind: Dense}, {Member: "size_train"}, {MaxDim: 2}} {
		_, err := load(t, "x", data, o)
		wantFormatError(t, err)
	}
	scalars := 0
	for i := range len(data) - 1 { // 1, 1: version and rank of a data space, among others
		if data[i] != 1 || data[i+1] != 1 {
			continue
		}
		damaged := bytes.Clone(data)
		damaged[i+1] = 0
		_, err := load(t, "x", damaged, Options{Member: "train"})
		if strings.Contains(fmt.Sprint(err), "size_train is a scalar") {
			scalars++
		}
	}
	if scalars != 1 {
		t.Errorf("%d errors of sizes that are a scalar", scalars)
	}
	ann, err := os.ReadFile(filepath.Join("testdata", "hdf5", "ann.h5"))
	must(t, err)
	_, err = load(t, "x", ann, Options{Kind: Sparse})
	if f := wantFormatError(t, err); !strings.Contains(f.Error(), "no sparse records") {
		t.Error(f)
	}
}

// TestDamagedHDF5: a thousand damaged copies of each file give errors, or the number of records
// that they promise, except where a number of rows is damaged so that it fits all the rest.
func TestDamagedHDF5(t *testing.T) {
	for _, path := range filesHDF5(t) {
		data, err := os.ReadFile(path)
		must(t, err)
		r, err := Open(path, Options{})
		must(t, err)
		want := r.Schema()
		must(t, r.Close())
		read := damage(t, "x.h5", data, Options{MaxDim: 4096}, want)
		t.Logf("%s: %d of 1000 read", filepath.Base(path), read)
	}
}

func FuzzHDF5(f *testing.F) {
	var seeds [][]byte
	other, err := filepath.Glob(filepath.Join("testdata", "hdf5", "other", "*.h5"))
	must(f, err)
	for _, path := range append(filesHDF5(f), other...) {
		data, err := os.ReadFile(path)
		must(f, err)
		seeds = append(seeds, data)
	}
	fuzzDecoder(f, Options{Format: FormatHDF5}, seeds...)
}
