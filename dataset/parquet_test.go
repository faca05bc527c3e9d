package dataset

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anndb/anndb/dataset/internal/parquet"
)

// parquetRecords are the rows of most files in testdata/parquet, which testdata/parquet.go.txt wrote by
// github.com/parquet-go/parquet-go 0.32.
func parquetRecords() []Record {
	var all []Record
	seen := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for i := range 300 {
		rec := Record{
			Key: strconv.AppendInt(nil, int64(i), 10), Vector: []float32{float32(i), float32(-i) / 2, 3},
			Labels: []string{"a", "b|c", "d"}[:i%4],
			Attributes: map[string]any{
				"count": int64(1<<31 + i), "brand": []string{"acme", "", "brand c"}[i%3], "sold": i%5 == 0,
				"seen": seen.Add(time.Duration(i) * time.Hour), "made": time.Unix(int64(20000-100*i)*86400, 0).UTC(),
			},
		}
		if i%2 == 0 {
			rec.Attributes["price"] = 2.5
		}
		if i%7 == 0 {
			rec.Payload = []byte("text")
		}
		all = append(all, rec)
	}
	return all
}

func parquetFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "parquet", name+".parquet"))
	must(t, err)
	return data
}

func TestParquet(t *testing.T) {
	want := parquetRecords()
	for _, name := range []string{"plain", "snappy", "gzip", "zstd"} {
		compare(t, mustLoad(t, "x", parquetFile(t, name), Options{}), want)
	}
	compare(t, mustLoad(t, "x", parquetFile(t, "delta"), Options{}), []Record{
		{Key: []byte("0"), Vector: []float32{1}, Attributes: map[string]any{"n": int64(1)}},
	})
	var keys []string
	for _, rec := range mustLoad(t, "x", parquetFile(t, "prefixes"), Options{}) {
		keys = append(keys, string(rec.Key))
	}
	if got := strings.Join(keys, " "); got != "apple apply b banana" {
		t.Errorf("texts with common beginnings: %s", got)
	}
	split := mustLoad(t, "x", parquetFile(t, "split"), Options{})
	for i, rec := range split {
		if rec.Attributes["s"] != float64(i)/4 || !reflect.DeepEqual(rec.Vector, want[i].Vector) {
			t.Fatalf("%+v", rec)
		}
	}
	// Columns by their names, types for texts.
	first := mustLoad(t, "x.parquet", parquetFile(t, "plain"), Options{
		KeyColumn: "made", LabelColumns: []string{"brand"}, PayloadColumn: "count", ExpiryColumn: "seen", Max: 1,
		IgnoreColumns: []string{"labels", "price", "payload", "id"}, Attributes: []Attribute{{"sold", BoolType}},
	})
	compare(t, first, []Record{{
		Key: []byte("2024-10-04T00:00:00Z"), Vector: []float32{0, 0, 3}, Labels: []string{"acme"}, Payload: []byte("2147483648"),
		ExpiresAt: want[0].Attributes["seen"].(time.Time), Attributes: map[string]any{"sold": true},
	}})
	r, err := Open(filepath.Join("testdata", "parquet", "plain.parquet"), Options{})
	must(t, err)
	defer r.Close()
	if s := r.Schema(); s.Records != 300 || s.Dim != 3 || !s.Keyed || len(s.Attributes) != 6 || s.Format != FormatParquet {
		t.Errorf("%+v", s)
	}
}

// TestParquetVectors: which column is the vector, and what its numbers can be.
func TestParquetVectors(t *testing.T) {
	data := parquetFile(t, "odd")
	ignore := []string{"d", "G"}
	for _, c := range []struct {
		o    Options
		want []float32
	}{
		{Options{IgnoreColumns: append(ignore, "w")}, []float32{1, 2}},
		{Options{IgnoreColumns: append(ignore, "v")}, []float32{3}},
		{Options{VectorField: "w", IgnoreColumns: append(ignore, "v")}, []float32{3}},
		{Options{LabelColumns: []string{"w"}, IgnoreColumns: ignore}, []float32{1, 2}},
	} {
		if got := mustLoad(t, "x", data, c.o); !reflect.DeepEqual(got[0].Vector, c.want) {
			t.Errorf("%+v: %v", c.o, got)
		}
	}
}

// TestDuckDB: what DuckDB writes in other compressions and types is read: vectors of sines.
func TestDuckDB(t *testing.T) {
	for name, want := range map[string]map[string]any{
		"lz4": nil, "brotli": nil, "columns": nil, "decimal": {"price": 1.25},
		"uuid": {"u": "6183f70b-361b-476f-8517-da0407903b65"},
	} {
		all := mustLoad(t, "x", parquetFile(t, name), Options{})
		if name == "lz4" { // of parquet-go
			compare(t, all, parquetRecords()[:len(all)])
			continue
		}
		first := Record{Key: []byte("k0"), Vector: []float32{0, 0.14112, -0.2794155, 0.4121185}, Attributes: want}
		compare(t, all[:1], []Record{first})
		if len(all) != 50 {
			t.Errorf("%s: %d records", name, len(all))
		}
	}
}

// TestDecimals: units of any width give the nearest float.
func TestDecimals(t *testing.T) {
	for _, c := range []struct {
		kind, scale int
		n           int64
		bytes       []byte
		want        float64
	}{
		{parquet.Int32, 2, -125, nil, -1.25}, {parquet.Int64, 0, 7, nil, 7}, {parquet.Int64, 1, 3, nil, 0.3},
		{parquet.ByteArray, 2, 0, []byte{0xff, 0x83}, -1.25}, {parquet.ByteArray, 2, 0, nil, 0},
		{parquet.FixedLenByteArray, 3, 0, []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 0.001},
		{parquet.FixedLenByteArray, 0, 0, []byte{0x80, 0, 0, 0, 0, 0, 0, 0, 0}, -1 << 71},
	} {
		col := parquetColumn{kind: c.kind, scale: c.scale}
		if got, err := col.decimal(c.n, c.bytes); err != nil || got != c.want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	col := parquetColumn{kind: parquet.ByteArray}
	if _, err := col.decimal(0, make([]byte, 33)); err == nil {
		t.Error("33 bytes are read")
	}
}

// TestNullVectors: a row without a vector, or with a value that is missing, is left out.
func TestNullVectors(t *testing.T) {
	for _, name := range []string{"null-vector", "null-element"} { // of DuckDB
		data := parquetFile(t, name)
		_, err := load(t, "x", data, Options{})
		if f := wantFormatError(t, err); !f.Skippable || !strings.Contains(f.Error(), `column "vector": the vector, or a value`) {
			t.Error(f)
		}
		rejected := 0
		o := Options{Reject: func(*FormatError) error { rejected++; return nil }}
		r, err := NewReader("x", bytes.NewReader(data), o)
		must(t, err)
		rows := 0
		for rec, err := range All(r) {
			must(t, err)
			if len(rec.Vector) != 4 {
				t.Fatalf("%s: %v", name, rec.Vector)
			}
			rows++
		}
		if rows != 49 || rejected != 1 {
			t.Errorf("%s: %d rows, %d rejected", name, rows, rejected)
		}
		must(t, r.Close())
	}
}

func TestBadParquet(t *testing.T) {
	plain := parquetFile(t, "plain")
	for _, c := range []struct {
		data []byte
		o    Options
		says string
	}{
		{parquetFile(t, "odd"), Options{IgnoreColumns: []string{"w"}}, `column "G": its type is not supported`},
		{parquetFile(t, "odd"), Options{IgnoreColumns: []string{"d", "G"}}, "neither the vector nor labels"},
		{parquetFile(t, "odd"), Options{IgnoreColumns: []string{"v", "w"}}, "no column has lists of numbers"},
		{parquetFile(t, "columns"), Options{IgnoreColumns: []string{"f0", "f1"}}, "no columns of numbers are named v0"},
		{parquetFile(t, "ragged"), Options{}, "a vector of 2 values, the records before have 1"},
		{parquetFile(t, "novector"), Options{}, "the vector, or a value of it, is missing"},
		{parquetFile(t, "none"), Options{}, "empty file"},
		{plain, Options{KeyColumn: "payload"}, "empty key"},
		{plain, Options{KeyColumn: "none"}, `no column "none"`},
		{plain, Options{Attributes: []Attribute{{"sold", IntType}}}, "type bool, not int"},
		{plain, Options{Attributes: []Attribute{{"brand", IntType}}}, `"acme" is not an integer`},
		{plain, Options{ExpiryColumn: "sold"}, "type bool, not time"},
		{plain, Options{MaxDim: 2}, "3 values, want 1..2"},
		{[]byte("PAR1\x00"), Options{}, "too short"},
		{plain[:len(plain)-1], Options{}, "no footer"},
		{zipped(t, plain), Options{}, "compression"},
	} {
		_, err := load(t, "x", c.data, c.o)
		if wantFormatError(t, err); !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q does not say %q", err, c.says)
		}
	}
}

// TestDamagedParquet: a thousand damaged copies of each file give errors, or as many records.
func TestDamagedParquet(t *testing.T) {
	for _, name := range []string{"plain", "snappy", "gzip", "zstd", "lz4", "brotli", "uuid", "decimal"} {
		r, err := Open(filepath.Join("testdata", "parquet", name+".parquet"), Options{})
		must(t, err)
		rec := Record{}
		must(t, r.Read(&rec))
		want := r.Schema()
		must(t, r.Close())
		read := damage(t, "x.parquet", parquetFile(t, name), Options{MaxDim: 4096}, want)
		t.Logf("%s: %d of 1000 read", name, read)
	}
}

// TestPyArrow: what pyarrow writes is read equal.
func TestPyArrow(t *testing.T) {
	dir := python(t, "pyarrow.parquet", `
import pyarrow as pa, pyarrow.parquet as pq, datetime
t = pa.table({'key': ['a', 'b'], 'v': pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32())),
  'labels': [['x'], []], 'n': [1, None], 'seen': [datetime.datetime(2026, 1, 2)] * 2})
pq.write_table(t, 'new.parquet')
pq.write_table(t, 'old.parquet', version='1.0', use_dictionary=False, compression='gzip')
`)
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"new", "old"} {
		data, err := os.ReadFile(filepath.Join(dir, name+".parquet"))
		must(t, err)
		compare(t, mustLoad(t, name, data, Options{}), []Record{
			{Key: []byte("a"), Vector: []float32{1, 2}, Labels: []string{"x"}, Attributes: map[string]any{"n": int64(1), "seen": at}},
			{Key: []byte("b"), Vector: []float32{3, 4}, Attributes: map[string]any{"seen": at}},
		})
	}
}

// TestParquetGroups: a file of several groups of rows is read equal, and names of attributes that are
// those of other columns come back.
func TestParquetGroups(t *testing.T) {
	all := parquetRecords()
	s := Schema{Kind: Dense, Dim: 30_000, Expires: true}
	for i := range all {
		v := make([]float32, s.Dim)
		v[i], all[i].Vector = float32(i), v
		all[i].Attributes["key"], all[i].Attributes["brand:string"] = int64(i), "x"
		if i%2 > 0 {
			all[i].ExpiresAt = time.Date(2030, 1, 1, 0, 0, i, 1, time.UTC)
			all[i].Attributes["brand"] = 0.5
		}
	}
	s.Attributes, s.Expires = columnsOf(all)
	path := filepath.Join(t.TempDir(), "x.parquet")
	w, err := Create(path, s)
	must(t, err)
	defer w.Abort()
	for i := range all {
		must(t, w.Write(&all[i]))
	}
	must(t, w.Close())
	data, err := os.ReadFile(path)
	must(t, err)
	if got := mustLoad(t, "x", data, Options{}); !reflect.DeepEqual(got[0].Attributes, all[0].Attributes) || same(all, got) != nil {
		t.Error(same(all, got))
	}
	t.Run("pyarrow", func(t *testing.T) {
		dir := python(t, "pyarrow.parquet", `
import pyarrow.parquet as pq
t = pq.read_table('`+path+`')
assert t.num_rows == 300 and t['vector'][5].as_py()[5] == 5 and t['labels'][3].as_py() == ['a', 'b|c', 'd'], t.schema
assert str(t.schema.field('seen').type) == 'timestamp[ns, tz=UTC]' and t['key'][7].as_py() == '7', t.schema
pq.write_table(t, 'again.parquet')
`)
		again, err := os.ReadFile(filepath.Join(dir, "again.parquet"))
		must(t, err)
		if err := same(all, mustLoad(t, "x", again, Options{})); err != nil {
			t.Error(err)
		}
	})
}

func FuzzParquet(f *testing.F) {
	fuzzDecoder(f, Options{Format: FormatParquet}, parquetFile(f, "zstd"), parquetFile(f, "gzip"), parquetFile(f, "ragged"),
		parquetFile(f, "lz4"), parquetFile(f, "brotli"), parquetFile(f, "uuid"), parquetFile(f, "decimal"),
		parquetFile(f, "columns"))
}
