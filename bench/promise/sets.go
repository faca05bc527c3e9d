package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anndb/anndb/bench/internal/vectors"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/vector"
)

const (
	hardRows = 20_000
	fewest   = 50
	// Sets whose queries are unlike the rows.
	unlikeSet, mixedSuffix = "wordnet-examples", "-mixed"
)

// load reads a data set. The endings -cosine and -ip select another metric than that of the set, and -mixed
// queries that are unlike the rows: means of two. Other sets are made here: equal, where nine tenths of the rows are equal; lengths and lengths-ip, whose rows have
// log-normal lengths; few-N, of N rows.
func load(data, name string) (*vectors.Set, error) {
	base, mixed := strings.CutSuffix(name, mixedSuffix)
	base, cosine := strings.CutSuffix(base, "-cosine")
	base, product := strings.CutSuffix(base, "-ip")
	if slices.Contains(vectors.Names(), name) {
		base, cosine, product = name, false, false
	}
	s, err := made(base)
	if s == nil && err == nil {
		s, err = vectors.Load(data, base)
	}
	if err != nil {
		return nil, err
	}
	s.Name = name
	switch {
	case product:
		s.Metric = vector.InnerProduct
	case cosine:
		s.Metric = vector.Cosine
		for _, rows := range [][]float32{s.Base, s.Test, s.Valid} {
			vectors.Normalise(rows, s.Dim)
		}
	}
	if mixed {
		mix(s.Test, s.Dim)
		mix(s.Valid, s.Dim)
	}
	return s, nil
}

// made returns a set that is made here, nil for other names.
func made(name string) (*vectors.Set, error) {
	n, r := hardRows, rand.New(rand.NewPCG(5, 6))
	few := strings.HasPrefix(name, "few-")
	if few {
		if _, err := fmt.Sscanf(name, "few-%d", &n); err != nil || n < fewest {
			return nil, fmt.Errorf("set %q: want few-N with N of at least %d", name, fewest)
		}
	} else if name != "equal" && name != "lengths" {
		return nil, nil
	}
	g := vectors.NewGenerator(vectors.Family[1], 1)
	s := &vectors.Set{Metric: vector.L2, Dim: g.Dim(), Base: g.Rows(1, n), Test: g.Rows(2, vectors.QueryRows),
		Valid: g.Rows(3, vectors.QueryRows)}
	for _, rows := range [][]float32{s.Base, s.Test, s.Valid} {
		for at := 0; at < len(rows); at += s.Dim {
			switch x := rows[at : at+s.Dim]; {
			case name == "lengths":
				vector.Scale(x, vector.InverseNorm(x)*float32(math.Exp(1.5*r.NormFloat64())), x)
			case name == "equal" && &rows[0] == &s.Base[0] && at/s.Dim%10 > 0:
				copy(x, s.Base)
			}
		}
	}
	return s, nil
}

// mix replaces each of an even number of rows by the mean of two.
func mix(rows []float32, dim int) {
	half := len(rows) / dim / 2 * dim
	first := slices.Clone(rows[:half])
	for i := range half { // neighbors in the file are unrelated
		rows[i], rows[half+i] = (rows[i]+rows[half+i])/2, (rows[half+i]+first[(i+dim)%half])/2
	}
}

// texts reads the texts of the rows or the queries of WordNet.
func texts(data, name string) (out []string, err error) {
	r, err := dataset.Open(filepath.Join(data, "wordnet", name+".jsonl.gz"), dataset.Options{
		Kind: dataset.Text, IgnoreColumns: []string{"words", "labels"},
	})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		var rec dataset.Record
		if err := r.Read(&rec); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out = append(out, rec.Text)
	}
}
