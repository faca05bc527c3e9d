package dataset

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/anndb/anndb/vector"
)

func copyOfSparse(rec *SparseRecord) SparseRecord {
	return SparseRecord{
		Key:      bytes.Clone(rec.Key),
		Features: vector.Sparse{Index: slices.Clone(rec.Features.Index), Value: slices.Clone(rec.Features.Value)},
		Labels:   slices.Clone(rec.Labels), Payload: bytes.Clone(rec.Payload),
	}
}

// readAllSparse reads to the end; it checks what every reader promises on the
// way.
func readAllSparse(t tester, r SparseReader) ([]SparseRecord, error) {
	t.Helper()
	var all []SparseRecord
	var rec SparseRecord
	for {
		if err := r.Read(&rec); err != nil {
			if again := r.Read(&rec); again != err {
				t.Errorf("the second Read after the end gives %v, the first gave %v", again, err)
			}
			if err != io.EOF {
				return all, err
			}
			if n := r.Len(); n >= 0 && n != int64(len(all)) {
				t.Errorf("Len says %d, read %d", n, len(all))
			}
			return all, nil
		}
		if err := rec.Features.Validate(); err != nil {
			t.Fatal(err)
		}
		if n := r.NumFeatures(); n >= 0 && rec.Features.Len() > 0 && int(rec.Features.Index[rec.Features.Len()-1]) >= n {
			t.Fatalf("feature %d, NumFeatures says %d", rec.Features.Index[rec.Features.Len()-1], n)
		}
		if slices.Contains(rec.Features.Value, 0) {
			t.Fatal("a zero is listed")
		}
		if len(rec.Key) == 0 {
			t.Fatal("empty key")
		}
		if l, twice := repeated(rec.Labels); twice {
			t.Fatalf("label %q twice", l)
		}
		all = append(all, copyOfSparse(&rec))
	}
}

func loadSparse(t testing.TB, name string, data []byte, o SparseOptions) ([]SparseRecord, error) {
	t.Helper()
	r, err := NewSparseReader(name, bytes.NewReader(data), o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readAllSparse(t, r)
}

// sameSparse compares records; empty and nil lists are the same.
func sameSparse(got, want []SparseRecord) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d records, want %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		if !bytes.Equal(g.Key, w.Key) || !slices.Equal(g.Labels, w.Labels) || !bytes.Equal(g.Payload, w.Payload) ||
			!slices.Equal(g.Features.Index, w.Features.Index) || !slices.Equal(g.Features.Value, w.Features.Value) {
			return fmt.Errorf("record %d: %+v, want %+v", i, g, w)
		}
	}
	return nil
}
