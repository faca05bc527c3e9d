package dataset

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/vector"
)

// Whatever a format can hold comes back the same, compressed or not.
func TestSparseRoundTrips(t *testing.T) {
	dir := t.TempDir()
	var names, labels []string
	for i := range 12 {
		names = append(names, []string{"", "it's ", "a\\b%", "\"{é}\"\n"}[i%4]+"f"+strconv.Itoa(i))
		labels = append(labels, []string{"l", "la bel", "x,\t'y'", "{l}"}[i%4]+strconv.Itoa(i))
	}
	value := rapid.Custom(func(t *rapid.T) float32 {
		v := rapid.Float32().Draw(t, "value")
		if !finite(v) || v == 0 {
			return math.SmallestNonzeroFloat32
		}
		return v
	})
	rapid.Check(t, func(t *rapid.T) {
		format := rapid.SampledFrom(WritableFormats(Sparse)).Draw(t, "format")
		named := rapid.Bool().Draw(t, "named")
		h := Schema{Format: format, Kind: Sparse, Dim: 12, Base: rapid.SampledFrom([]Base{BaseZero, BaseOne}).Draw(t, "base")}
		o := Options{Format: format, Base: h.Base}
		if named && format == FormatJSONL {
			h.FeatureNames, o.FeatureNames = names, names
		}
		path := filepath.Join(dir, "x"+rapid.SampledFrom([]string{"", ".gz"}).Draw(t, "ending"))
		w, err := Create(path, h)
		must(t, err)
		defer w.Abort()
		var want []Record
		for i := range rapid.IntRange(0, 5).Draw(t, "n") {
			rec := Record{Key: []byte(strconv.Itoa(i))}
			for f := range uint32(12) {
				if rapid.IntRange(0, 2).Draw(t, "has") == 0 {
					rec.Features.Index = append(rec.Features.Index, f)
					rec.Features.Value = append(rec.Features.Value, value.Draw(t, "v"))
				}
			}
			for j, l := range labels {
				if rapid.IntRange(0, 3).Draw(t, "label") == 0 {
					if format == FormatLibsvm {
						l = strconv.Itoa(j)
					}
					rec.Labels = append(rec.Labels, l)
				}
			}
			if format == FormatJSONL {
				rec.Key = append(rec.Key, rapid.SliceOf(rapid.Byte()).Draw(t, "key")...)
				rec.Payload = rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
				drawAttributes(t, format, &rec)
			}
			if format == FormatLibsvm && len(rec.Labels)+rec.Features.Len() == 0 {
				if err := w.Write(&rec); !errors.Is(err, ErrRecord) {
					t.Fatal(err)
				}
				rec.Labels = []string{"7"}
			}
			must(t, w.Write(&rec))
			want = append(want, copyOf(&rec))
		}
		must(t, w.Close())
		r, err := Open(path, asSparse(o))
		if len(want) == 0 && errors.Is(err, errNoRecords) {
			return
		}
		must(t, err)
		defer r.Close()
		got, err := readAll(t, r)
		if err != nil && (len(want) > 0 || r.Schema().Records >= 0) {
			t.Fatal(err)
		}
		must(t, same(want, got))
		if r.Schema().Dim > 0 && r.Schema().Dim != 12 {
			t.Fatalf("%d features", r.Schema().Dim)
		}
	})
}

// A refused record leaves the file as it was.
func TestSparseWriterRefuses(t *testing.T) {
	dir := t.TempDir()
	bad := map[string][]Record{
		FormatLibsvm: {record("0", "a,b"), record("0", "+1"), {Labels: []string{""}}, {Labels: []string{"a b"}}, {Labels: []string{"a\u00a0b"}}, record("0", "")},
		FormatJSONL:  {record("", "1"), {Key: []byte("0"), Labels: []string{"\xff"}}},
	}
	always := []Record{
		record("0", "1", 9, 1), record("0", "1", 1, float32(math.NaN())), record("0", "1", 2, 1, 1, 1), record("0", "1", 1, 1, 1, 1),
		{Key: []byte("0"), Features: vector.Sparse{Index: []uint32{1}}},
	}
	for format, records := range bad {
		path := filepath.Join(dir, format)
		w, err := Create(path, Schema{Format: format, Kind: Sparse, Dim: 3})
		must(t, err)
		good := record("0", "1", 0, 1, 2, 0.5)
		must(t, w.Write(&good))
		for _, rec := range slices.Concat(records, always) {
			if err := w.Write(&rec); !errors.Is(err, ErrRecord) {
				t.Errorf("%s: %+v: %v", format, rec, err)
			}
		}
		must(t, w.Close())
		if err := w.Write(&good); !errors.Is(err, os.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		r, err := Open(path, asSparse(Options{}))
		must(t, err)
		got, err := readAll(t, r)
		must(t, err)
		if err := same([]Record{good}, got); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		r.Close()
	}
}
