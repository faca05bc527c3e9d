package dataset

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// tensorFile makes a safetensors file of a header and the bytes of the tensors.
func tensorFile(header string, body ...[]byte) []byte {
	for len(header)%8 > 0 { // as the writers of the format do
		header += " "
	}
	return join(le(uint64(len(header))), []byte(header), join(body...))
}

// oneTensor is a file with the tensor "emb".
func oneTensor(typ, shape string, body []byte) []byte {
	return tensorFile(fmt.Sprintf(`{"emb":{"dtype":%q,"shape":%s,"data_offsets":[0,%d]},"__metadata__":{"format":"pt"}}`,
		typ, shape, len(body)), body)
}

// twoTensors has "weight" behind "bias", which has one dimension.
var twoTensors = tensorFile(`{"weight":{"dtype":"F32","shape":[2,1,2],"data_offsets":[4,20]},`+
	`"bias":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}`, le([]uint16{0x3c00, 0x4000}), le([]float32{1, 2, 3, 4}))

func TestSafetensors(t *testing.T) {
	half := numbered([]float32{0.5, -1.25})
	for _, c := range []struct {
		data []byte
		want []Record
	}{
		{oneTensor("F32", "[1,2]", le([]float32{0.5, -1.25})), half},
		{oneTensor("F64", "[1,2]", le([]float64{0.5, -1.25})), half},
		{oneTensor("F16", "[1,2]", le([]uint16{0x3800, 0xbd00})), half},
		{oneTensor("BF16", "[1,2]", le([]uint16{0x3f00, 0xbfa0})), half},
		{oneTensor("I8", "[2,1]", le([]int8{-1, 2})), numbered([]float32{-1}, []float32{2})},
		{oneTensor("I64", "[2,1]", le([]int64{-1, 2})), numbered([]float32{-1}, []float32{2})},
		{oneTensor("U16", "[2,1]", le([]uint16{1, 65535})), numbered([]float32{1}, []float32{65535})},
		{oneTensor("BOOL", "[2,1]", []byte{1, 0}), numbered([]float32{1}, []float32{0})},
		{oneTensor("F32", "[0,2]", nil), nil},
		{twoTensors, numbered([]float32{1, 2}, []float32{3, 4})},
	} {
		compare(t, mustLoad(t, "x", c.data, Options{}), c.want)
		r, err := Open(tempFile(t, "x.safetensors", c.data), Options{})
		must(t, err)
		if s := r.Schema(); s.Records != int64(len(c.want)) || s.Member == "" || s.Format != FormatTensors {
			t.Errorf("schema %+v", s)
		}
		got, err := readAll(t, r)
		must(t, err)
		compare(t, got, c.want)
		must(t, r.Close())
	}
}

func TestSafetensorsBad(t *testing.T) {
	one := le([]float32{1, 2})
	for says, data := range map[string][]byte{
		"a header of":          join(le(uint64(1000)), []byte("{}")),
		"header: unexpected":   tensorFile(`{"a":`),
		"header: tensor \"a\"": tensorFile(`{"a":{"shape":[-1,2]}}`),
		"from 0 on":            tensorFile(`{"a":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}}`, one, one),
		"behind its header":    tensorFile(`{"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}`, one, one),
		"want them from 8 on":  tensorFile(`{"a":{"dtype":"U8","shape":[1,8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[1,4],"data_offsets":[4,8]}}`, one),
		"there is no \"b\"":    oneTensor("F32", "[1,2]", one),
		"differ":               oneTensor("F32", "[2,2]", one),
		"F8_E4M3":              oneTensor("F8_E4M3", "[2,4]", one),
		"values":               oneTensor("F32", "[1,18446744073709551615]", one),
		"not finite":           oneTensor("F32", "[1,2]", le([]float32{1, float32(math.NaN())})),
		"no array has rows":    oneTensor("F32", "[2]", one),
		"which array":          tensorFile(`{"a":{"dtype":"U8","shape":[1,8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[1,8],"data_offsets":[8,16]}}`, one, one),
		"through a pipe":       zipped(t, twoTensors),
		"truncated":            twoTensors[:4],
	} {
		o := Options{Format: FormatTensors}
		if strings.Contains(says, `no "b"`) {
			o.Member = "b"
		}
		_, err := load(t, "x", data, o)
		f := wantFormatError(t, err)
		if !strings.Contains(strings.ToLower(f.Error()), strings.ToLower(says)) {
			t.Errorf("%v, want %q", f, says)
		}
	}
}

func TestRaw(t *testing.T) {
	data := le([]float32{1, 2, 3, -4})
	two := numbered([]float32{1, 2}, []float32{3, -4})
	compare(t, mustLoad(t, "vectors.bin", data, Options{Dim: 2}), two)
	compare(t, mustLoad(t, "vectors.bin", zipped(t, data), Options{Dim: 2, Format: FormatF32}), two)
	r, err := Open(tempFile(t, "a.f32", data), Options{Dim: 2})
	must(t, err)
	defer r.Close()
	if n := r.Schema().Records; n != 2 {
		t.Errorf("%d records", n)
	}
	_, err = load(t, "a.f32", data, Options{})
	if f := wantFormatError(t, err); f.Err != ErrDim {
		t.Error(f)
	}
	for _, z := range [][]byte{data, zipped(t, data)} {
		_, err = load(t, "a.f32", z, Options{Dim: 3})
		wantFormatError(t, err)
	}
}

func FuzzSafetensors(f *testing.F) {
	fuzzDecoder(f, Options{Format: FormatTensors}, twoTensors, oneTensor("BF16", "[2,1]", le([]uint16{0x3f00, 0xbfa0})),
		oneTensor("I64", "[2,1]", le([]int64{-1, 2})), binary.LittleEndian.AppendUint64(nil, math.MaxUint64))
}

func FuzzRaw(f *testing.F) { fuzzDecoder(f, Options{Dim: 3}, le([]float32{1, 2, 3, 4, 5, 6, 7})) }

// moved returns a file of testdata/moving. Those of FAISS are by testdata/moving.py.
func moved(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "moving", name))
	must(t, err)
	return data
}

// TestFAISS reads files that FAISS has written: all have the rows of rows.f32.
func TestFAISS(t *testing.T) {
	rows := mustLoad(t, "rows.f32", moved(t, "rows.f32"), Options{Dim: 8})
	for _, c := range []struct {
		name, distance string
		keys           []string // nil: the numbers of the rows
	}{
		{"l2", "euclidean", nil}, {"ip", "ip", nil}, {"l1", "FAISS metric 2", nil},
		{"ivf", "euclidean", from(500)}, {"ivf-sparse", "euclidean", []string{"7", "-1", "1099511627776"}},
		{"ivf-direct", "euclidean", from(0)}, {"ivf-table", "ip", from(0)},
		{"ids", "euclidean", from(500)}, {"ids2", "euclidean", from(500)},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := map[string][]float32{}
			for i, r := range rows {
				if c.keys == nil {
					want[string(r.Key)] = r.Vector
				} else if i < len(c.keys) {
					want[c.keys[i]] = r.Vector
				}
			}
			r, err := Open(filepath.Join("testdata", "moving", c.name+".faiss"), Options{})
			must(t, err)
			defer r.Close()
			s := r.Schema()
			if s.Format != FormatFAISS || s.Distance != c.distance || s.Keyed != (c.keys != nil) || s.Records != int64(len(want)) {
				t.Errorf("schema %+v", s)
			}
			got, err := readAll(t, r)
			must(t, err)
			found := map[string][]float32{}
			for _, rec := range got {
				found[string(rec.Key)] = rec.Vector
			}
			if d := cmp.Diff(want, found); d != "" || len(got) != len(want) {
				t.Errorf("%d rows (-want +got):\n%s", len(got), d)
			}
		})
	}
}

// from are the keys of rows numbered from n on.
func from(n int) (keys []string) {
	for i := range 20 {
		keys = append(keys, strconv.Itoa(n+i))
	}
	return keys
}

// TestFAISSBad: kinds of index that have no vectors as they were, every cut, and numbers that are wrong.
func TestFAISSBad(t *testing.T) {
	for name, says := range map[string]string{"hnsw": `type "IHNf"`, "norm": `type "IxPT"`} {
		_, err := load(t, "x", moved(t, name+".faiss"), Options{})
		if f := wantFormatError(t, err); !strings.Contains(f.Error(), says) || !strings.Contains(f.Error(), "reconstruct_n") {
			t.Error(f)
		}
	}
	_, err := load(t, "x.faiss", zipped(t, moved(t, "l2.faiss")), Options{})
	wantFormatError(t, err)
	for _, name := range []string{"ip", "ids", "ivf", "ivf-sparse", "ivf-direct", "ivf-table"} {
		data := moved(t, name+".faiss")
		for n := range data {
			_, err := load(t, "x.faiss", data[:n], Options{})
			wantFormatError(t, err)
		}
		_, err := load(t, "x", append(data, 0), Options{})
		wantFormatError(t, err)
		// Any byte of a count or a size: read without a panic, and what is read is whole.
		for i := range data {
			for _, v := range []byte{0, 0xff, data[i] + 1} {
				bad := bytes.Clone(data)
				bad[i] = v
				_, _ = load(t, "x.faiss", bad, Options{})
			}
		}
	}
}

func FuzzFAISS(f *testing.F) {
	var seeds [][]byte
	for _, name := range []string{"l2", "l1", "ids", "ivf", "ivf-sparse", "ivf-direct", "ivf-table"} {
		seeds = append(seeds, moved(f, name+".faiss"))
	}
	fuzzDecoder(f, Options{Format: FormatFAISS}, seeds...)
}

// TestChromem reads exports that chromem-go 0.7.0 has written, by testdata/chromem.go.txt.
func TestChromem(t *testing.T) {
	want := map[string]Record{
		"a": {
			Key: []byte("a"), Vector: []float32{0.6, 0.8, 0}, Text: "Flush a writer",
			Attributes: map[string]any{"year": "1990", "author": "x"},
		},
		"b": {Key: []byte("b"), Vector: []float32{0, 1, 0}},
		"c": {Key: []byte("c"), Vector: []float32{0, 0, 1}, Text: "é"},
	}
	read := func(name string, o Options, want map[string]Record) Schema {
		t.Helper()
		r, err := Open(filepath.Join("testdata", "moving", name), o)
		must(t, err)
		defer r.Close()
		got, err := readAll(t, r)
		must(t, err)
		found := map[string]Record{}
		for _, rec := range got {
			found[string(rec.Key)] = rec
		}
		if d := cmp.Diff(want, found, cmpopts.EquateEmpty()); d != "" || len(got) != len(want) {
			t.Errorf("%s: %d records (-want +got):\n%s", name, len(got), d)
		}
		return r.Schema()
	}
	for _, name := range []string{"one.gob", "one.gob.gz"} {
		s := read(name, Options{}, want)
		if s.Format != FormatChromem || s.Kind != Text || s.Dim != 3 || s.Records != 3 || !s.Keyed || s.Distance != "cosine" {
			t.Errorf("schema %+v", s)
		}
	}
	read("one.gob", Options{Member: "notes"}, want)
	read("two.gob", Options{Member: "notes", Kind: Text}, want)
	z := map[string]Record{"z": {Key: []byte("z"), Vector: []float32{1, 0, 0}, Payload: []byte("z")}}
	if s := read("two.gob", Options{Member: "other", Kind: Dense}, z); s.Kind != Dense || s.Dim != 3 {
		t.Errorf("schema %+v", s)
	}
	a := want["a"]
	a.Attributes, a.Labels = map[string]any{"year": int64(1990)}, []string{"x"}
	want["a"] = a
	read("one.gob", Options{LabelColumns: []string{"author"}, Attributes: []Attribute{{"year", IntType}}}, want)
	a.Attributes, a.ExpiresAt = nil, time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	a.Labels = nil
	want["a"] = a
	data := bytes.Replace(moved(t, "one.gob"), []byte("\x041990\x06author\x01x"), []byte("\x0a1990-01-01\x06author\x01x"), 1)
	data[bytes.Index(data, []byte("\xff\x80\x01\x01\x05notes"))-1] += 6 // the length of the value
	all := mustLoad(t, "x", data, Options{ExpiryColumn: "year", IgnoreColumns: []string{"author"}})
	for _, rec := range all {
		if d := cmp.Diff(want[string(rec.Key)], rec, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
	}
}

func TestChromemBad(t *testing.T) {
	one := moved(t, "one.gob")
	_, err := load(t, "x.gob", one, Options{Member: "other"})
	if f := wantFormatError(t, err); !errors.Is(f, ErrMember) || !strings.Contains(f.Error(), `"notes"`) {
		t.Error(f)
	}
	_, err = load(t, "x.gob", moved(t, "two.gob"), Options{})
	if f := wantFormatError(t, err); !errors.Is(f, ErrMember) || !strings.Contains(f.Error(), `"other"`) {
		t.Error(f)
	}
	_, err = load(t, "x.gob", moved(t, "none.gob"), Options{})
	if f := wantFormatError(t, err); !errors.Is(f, errNoRecords) {
		t.Error(f)
	}
	for _, o := range []Options{{}, {Kind: Text}, {Kind: Dense}} {
		_, err = load(t, "x.gob.enc", moved(t, "encrypted.gob.enc"), o)
		if f := wantFormatError(t, err); !errors.Is(f, errNotChromem) {
			t.Error(f)
		}
	}
	for n := range one {
		_, err := load(t, "x.gob", one[:n], Options{Format: FormatChromem})
		wantFormatError(t, err)
		for _, v := range []byte{0, 0x7f, 0xff, one[n] + 1} {
			bad := bytes.Clone(one)
			bad[n] = v
			_, _ = load(t, "x.gob", bad, Options{Format: FormatChromem})
		}
	}
	_, err = load(t, "x.gob", append(bytes.Clone(one), 0), Options{})
	wantFormatError(t, err)
}

// TestChromemMemory: counts and lengths that a file says are not believed, and documents are read one by one.
func TestChromemMemory(t *testing.T) {
	one := moved(t, "one.gob")
	at := bytes.Index(one, []byte("\x01\x03\x01c\x01\x01c")) // three documents
	huge := join(one[:at+1], []byte{0xf8, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, one[at+2:])
	_, err := load(t, "x.gob", huge, Options{Format: FormatChromem})
	wantFormatError(t, err)
	at = bytes.Index(one, []byte("Flush"))
	long := join(one[:at-1], []byte{0xfc, 0x7f, 0xff, 0xff, 0xff}, one[at:])
	_, err = load(t, "x.gob", long, Options{Format: FormatChromem})
	if f := wantFormatError(t, err); !errors.Is(f, errTooLong) {
		t.Error(f)
	}
}

// TestChromemStream reads a large export, encoded by encoding/gob, in memory that does not grow with it.
func TestChromemStream(t *testing.T) {
	type document struct {
		ID        string
		Metadata  map[string]string
		Embedding []float32
		Content   string
	}
	type collection struct {
		Name      string
		Metadata  map[string]string
		Documents map[string]*document
	}
	all := collection{Name: "c", Documents: map[string]*document{}}
	const n = 20_000
	for i := range n {
		id := strconv.Itoa(i)
		all.Documents[id] = &document{ID: id, Embedding: make([]float32, 64), Content: strings.Repeat("x", 100)}
		all.Documents[id].Embedding[i%64] = float32(i)
	}
	path := filepath.Join(t.TempDir(), "x.gob")
	f, err := os.Create(path)
	must(t, err)
	must(t, gob.NewEncoder(f).Encode(struct{ Collections map[string]*collection }{map[string]*collection{"c": &all}}))
	must(t, f.Close())
	r, err := Open(path, Options{})
	must(t, err)
	defer r.Close()
	var rec Record
	seen, before, after := 0, runtime.MemStats{}, runtime.MemStats{}
	runtime.GC()
	runtime.ReadMemStats(&before)
	for err = r.Read(&rec); err == nil; err = r.Read(&rec) {
		d := all.Documents[string(rec.Key)]
		if d == nil || !slices.Equal(d.Embedding, rec.Vector) || d.Content != rec.Text {
			t.Fatalf("document %q: %v", rec.Key, rec.Vector)
		}
		seen++
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if err != io.EOF || seen != n {
		t.Errorf("%d documents: %v", seen, err)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes more in use", grown)
	}
}

func FuzzChromem(f *testing.F) {
	one := moved(f, "one.gob")
	fuzzDecoder(f, Options{Format: FormatChromem}, one, moved(f, "none.gob"), zipped(f, one))

}
