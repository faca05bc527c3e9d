package vectors

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/anndb/anndb/bench/internal/lsa"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/vector"
)

// texts are sets of documents as people embed them: weighted term counts, reduced by truncated SVD
// to as many coordinates as the end of the name says, compared by cosine.
var texts = []struct {
	name, base, test, valid string
	// terms is the number of terms that are used, those of most documents.
	terms uint32
}{
	{"eurlex", "eurlex57k/eurlex57k-train.txt.gz", "eurlex57k/eurlex57k-test.txt.gz",
		"eurlex57k/eurlex57k-dev.txt.gz", 32_212},
	// Test rows are both: the first are test, the next validation queries.
	{"news", "news20-bydate/news20-bydate-train.txt.gz", "news20-bydate/news20-bydate-test.txt.gz", "", 50_000},
}

var textDims = []int{256, 768, 1536}

// text reads the set of a name such as eurlex-256; ok is false if there is none. The space is
// that of all documents, queries included, as an embedding is not learned from what is indexed. It
// is kept in the user's cache folder, since it takes a minute.
func (s *Set) text(data, name string) (ok bool, err error) {
	for _, t := range texts {
		for _, dim := range textDims {
			if name != fmt.Sprint(t.name, "-", dim) {
				continue
			}
			s.Metric, s.Dim = vector.Cosine, dim
			docs := &lsa.Matrix{Cols: int(t.terms), Ptr: []int{0}}
			if err := readTerms(docs, filepath.Join(data, t.base), 0); err != nil {
				return true, err
			}
			base, more := docs.Rows, int64(QueryRows)
			if t.valid == "" {
				more = 2 * QueryRows
			}
			if err := readTerms(docs, filepath.Join(data, t.test), more); err != nil {
				return true, err
			}
			if t.valid != "" {
				if err := readTerms(docs, filepath.Join(data, t.valid), more); err != nil {
					return true, err
				}
			}
			all, err := projected(name, docs, dim)
			if err != nil {
				return true, err
			}
			s.Base, all = all[:base*dim], all[base*dim:]
			s.Test, s.Valid = all[:QueryRows*dim], all[QueryRows*dim:2*QueryRows*dim]
			return true, nil
		}
	}
	return false, nil
}

// readTerms appends the documents of a file, or its first max, to a matrix: counts of terms.
func readTerms(to *lsa.Matrix, path string, max int64) error {
	r, err := dataset.Open(path, dataset.Options{Max: max, Kind: dataset.Sparse})
	if err != nil {
		return err
	}
	defer r.Close()
	for rec, err := range dataset.All(r) {
		if err != nil {
			return err
		}
		for i, f := range rec.Features.Index {
			if int(f) < to.Cols {
				to.Idx, to.Val = append(to.Idx, f), append(to.Val, float64(rec.Features.Value[i]))
			}
		}
		to.Ptr = append(to.Ptr, len(to.Idx))
		to.Rows++
	}
	return nil
}

// projected returns the documents in the leading singular directions, at unit length, from the
// cache if they are there.
func projected(name string, docs *lsa.Matrix, dim int) ([]float32, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "anndb-bench", name+"-"+strconv.Itoa(docs.Rows)+".f32")
	if raw, err := os.ReadFile(path); err == nil && len(raw) == 4*dim*docs.Rows {
		out := make([]float32, dim*docs.Rows)
		_, err := binary.Decode(raw, binary.LittleEndian, out)
		return out, err
	}
	fmt.Fprintf(os.Stderr, "%s: truncated SVD of %d documents, kept in %s\n", name, docs.Rows, path)
	docs.Weigh()
	out, _, err := lsa.SVD(context.Background(), docs, lsa.Options{Dims: dim, Rounds: 3, Seed: 1})
	if err != nil {
		return nil, err
	}
	Normalise(out, dim)
	raw, err := binary.Append(nil, binary.LittleEndian, out)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	partial := path + ".partial"
	if err := os.WriteFile(partial, raw, 0o644); err != nil {
		return nil, err
	}
	return out, os.Rename(partial, path)
}

// textNames are the names of the sets of documents.
func textNames() []string {
	var names []string
	for _, t := range texts {
		for _, dim := range textDims {
			names = append(names, strings.Join([]string{t.name, strconv.Itoa(dim)}, "-"))
		}
	}
	return names
}
