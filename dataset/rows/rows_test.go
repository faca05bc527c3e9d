package rows_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

func TestFile(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text string
		kind dataset.Kind
		want db.Row
	}{
		"a.csv": {"1,2.5\n", dataset.Dense, db.Row{Key: []byte("0"), Vector: []float32{1, 2.5}}},
		"a.txt": {"Some words.\n", dataset.AnyKind, db.Row{Key: []byte("0"), Text: "Some words."}},
		"a.svm": {"x,y 1:2 3:1\n", dataset.Sparse, db.Row{Key: []byte("0"), Labels: []string{"x", "y"}, Sparse: vector.Sparse{Index: []uint32{0, 2}, Value: []float32{2, 1}}}},
		"b.csv": {"v,n:int,expires\n1,7,2026-01-02\n", dataset.Dense, db.Row{
			Key: []byte("0"), Vector: []float32{1}, Attributes: map[string]any{"n": int64(7)},
			ExpiresAt: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
		}},
		"a.jsonl": {`{"key":"k","features":{"goal":2},"labels":["sport"]}` + "\n", dataset.Sparse, db.Row{
			Key: []byte("k"), Labels: []string{"sport"}, Features: []vector.Feature{{Name: "goal", Value: 2}},
		}},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		for r, err := range rows.File(path, dataset.Options{Kind: c.kind}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; len(r.Labels) == 0 {
				r.Labels = nil
			}
			if len(r.Payload) == 0 {
				r.Payload = nil
			}
			if !reflect.DeepEqual(r, c.want) {
				t.Errorf("%s: %+v, want %+v", name, r, c.want)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d rows", name, n)
		}
	}
	for _, err := range rows.File(filepath.Join(dir, "none.csv"), dataset.Options{}) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no file: %v", err)
		}
	}
	bad := filepath.Join(dir, "bad.csv")
	if err := os.WriteFile(bad, []byte("1,2\n3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var last error
	n := 0
	for _, err := range rows.File(bad, dataset.Options{Kind: dataset.Dense}) {
		n++
		last = err
	}
	if n != 2 || last == nil {
		t.Errorf("a bad line: %d rows, %v", n, last)
	}
}

// TestAppendJSON writes rows of each kind of collection, with vectors as numbers and in base64, and reads them.
func TestAppendJSON(t *testing.T) {
	for name, c := range map[string]struct {
		schema db.Schema
		row    db.Row
	}{
		"dense":    {db.Schema{Dim: 2}, db.Row{Vector: []float32{1.5, math.MaxFloat32}, Labels: []string{"x"}}},
		"sparse":   {db.Schema{Sparse: true}, db.Row{Sparse: vector.Sparse{Index: []uint32{1, 7}, Value: []float32{2, 3}}}},
		"named":    {db.Schema{Sparse: true, Named: true}, db.Row{Features: []vector.Feature{{Name: "b", Value: 2}}}},
		"features": {db.Schema{Named: true, Dim: 2}, db.Row{Features: []vector.Feature{{Name: "b", Value: 2}}, Vector: []float32{1, 2}}},
		"text":     {db.Schema{Text: &text.Schema{}}, db.Row{Text: "words"}},
		"both":     {db.Schema{Text: &text.Schema{}, Dim: 1}, db.Row{Text: "words", Vector: []float32{-0.25}}},
	} {
		for _, base64 := range []bool{false, true} {
			want := c.row
			want.Key, want.Payload, want.Attributes = []byte("\xff"), []byte("p"), map[string]any{"n": 1.0}
			s := rows.Schema(&db.CollectionInfo{Schema: c.schema})
			s.Base64 = base64
			line, err := rows.AppendJSON(nil, &want, s)
			if err != nil {
				t.Fatal(err)
			}
			if base64 != bytes.Contains(line, []byte(`"vector":{"base64"`)) && len(want.Vector) > 0 {
				t.Errorf("%s: %s", name, line)
			}
			for _, kind := range []dataset.Kind{s.Kind, dataset.AnyKind} {
				rec, schema, err := dataset.ParseJSON(line, dataset.Options{Kind: kind})
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				var got db.Row
				if rows.Of(&got, &rec, schema); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %s: read as %+v, want %+v", name, line, got, want)
				}
			}
		}
	}
	named := &db.CollectionInfo{Schema: db.Schema{Sparse: true, Named: true}}
	b, a := vector.Feature{Name: "b", Value: 2}, vector.Feature{Name: "a", Value: 1}
	x, err := rows.Line(&db.Row{Key: []byte("k"), Features: []vector.Feature{b, a}}, named)
	y, err2 := rows.Line(&db.Row{Key: []byte("k"), Features: []vector.Feature{a, b}}, named)
	if err != nil || err2 != nil || !bytes.Equal(x, y) {
		t.Errorf("equal rows as %s and %s: %v, %v", x, y, err, err2)
	}
	rec, _, err := dataset.ParseJSON([]byte(`{"vector":[1]}`), dataset.Options{Kind: dataset.Sparse})
	if err != nil || len(rec.Vector) != 1 || rec.Features.Len() != 0 {
		t.Errorf("a vector without features: %+v, %v", rec, err)
	}
	for _, bad := range []string{
		`{"vector":{"base64":"AACAfw=="}}`, `{"vector":{"base64":"AAAA"}}`, `{"vector":{"base64":1}}`, `{"vector":{"base64":"!"}}`,
		`{"vector":{"base64":""}}`, `{"vector":{"hex":"00"}}`, `{"vector":{"base64":"AACAPw==","x":1}}`, ``, `{"vector":[1]} {}`,
	} {
		if _, _, err := dataset.ParseJSON([]byte(bad), dataset.Options{Kind: dataset.Dense}); !errors.Is(err, dataset.ErrFormat) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
