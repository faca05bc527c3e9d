package main

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/anndb/anndb/db"
)

// askFlags are the queries to a collection.
type askFlags struct {
	Query    string `help:"File of queries." placeholder:"FILE" xor:"query" required:""`
	OfKey    string `name:"key" help:"The row of this key is the query." xor:"query" required:""`
	Features string `help:"The query itself: features with their values, numbers or names, commas between." placeholder:"NAME=V,…" xor:"query" required:""`
	Vector   string `help:"The query itself, to a dense collection: numbers with commas between." placeholder:"1,2,3" xor:"query" required:""`
	fileFlags
}

// asked are the queries of a command, one after the other, and how many there are; 0
// where that is not known.
type asked struct {
	each  iter.Seq2[labelQuery, error]
	total int
	close func() error
}

// ask opens the queries.
func (f askFlags) ask(a *app, s *db.Snapshot, info db.CollectionInfo) (*asked, error) {
	if f.Query != "" {
		to := targetOf(a, info)
		in, err := source{path: f.Query, flags: f.fileFlags, kind: to.kind(), to: to}.open()
		if err != nil {
			return nil, err
		}
		return &asked{in.queries(), int(max(0, in.Records)), in.Close}, nil
	}
	q, err := f.one(a, s, info)
	if err != nil {
		return nil, err
	}
	one := func(yield func(labelQuery, error) bool) { yield(q, nil) }
	return &asked{one, 1, func() error { return nil }}, nil
}

// one is the query that the flags give without a file.
func (f askFlags) one(a *app, s *db.Snapshot, info db.CollectionInfo) (q labelQuery, err error) {
	switch {
	case f.OfKey != "":
		row, err := s.Collection(info.Name).Get([]byte(f.OfKey))
		if err != nil {
			return q, fmt.Errorf("--key: %w", err)
		}
		query := db.Query{Sparse: row.Sparse, Features: row.Features, Vector: row.Vector}
		return labelQuery{f.OfKey, query, row.Labels}, nil
	case f.Vector != "" && info.Sparse:
		return q, usagef("--vector is for dense collections; %q is sparse: give --features", info.Name)
	case f.Vector != "":
		q.key = "vector"
		if q.query.Vector, err = parseVector(f.Vector); err != nil {
			return q, err
		}
		if n := len(q.query.Vector); n != info.Dim {
			return q, usagef("--vector has %d numbers, collection %q has %d", n, info.Name, info.Dim)
		}
		return q, nil
	case !info.Sparse:
		return q, usagef("--features is for sparse collections; %q is dense: give --vector", info.Name)
	}
	base, err := targetOf(a, info).base(f.Base)
	if err != nil {
		return q, err
	}
	q.key = "features"
	q.query, err = parseFeatures(f.Features, info, first(base))
	return q, err
}

// parseVector reads numbers with commas or blanks between.
func parseVector(text string) ([]float32, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	v := make([]float32, len(words))
	for i, w := range words {
		f, err := strconv.ParseFloat(w, 32)
		if errors.Is(err, strconv.ErrRange) {
			return nil, usagef("--vector: %s is out of the range of float32", w)
		}
		if err != nil {
			return nil, usagef("--vector: %q is not a number", w)
		}
		v[i] = float32(f)
	}
	return v, nil
}

// parseFeatures reads features with their values, commas between. A feature
// alone has the value one; the last = counts, since names may have one. first is
// the number of the first feature.
func parseFeatures(text string, info db.CollectionInfo, first uint32) (db.Query, error) {
	var q db.Query
	values := map[uint32]float32{}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		part = strings.TrimSpace(part)
		name, value := part, float32(1)
		if i := strings.LastIndexByte(part, '='); i >= 0 {
			v, err := strconv.ParseFloat(part[i+1:], 32)
			switch {
			case errors.Is(err, strconv.ErrRange):
				return q, usagef("--features: %s has the value %s, which is out of the range of float32",
					part[:i], part[i+1:])
			case err != nil:
				return q, usagef("--features: %s has the value %q, which is not a number", part[:i], part[i+1:])
			case !(v >= 0) || math.IsInf(v, 0):
				return q, usagef("--features: %s has the value %s: sparse values must be finite and not negative",
					part[:i], part[i+1:])
			}
			name, value = part[:i], float32(v)
		}
		if info.Named {
			q.Features = append(q.Features, db.Feature{Name: name, Value: value})
			continue
		}
		n, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			return q, usagef("--features: %q is no number, and the collection's features have no names", name)
		}
		if uint32(n) < first {
			return q, usagef("--features: there is no feature %d: collection %q counts features from %d",
				n, info.Name, first)
		}
		feature := uint32(n) - first
		if _, twice := values[feature]; twice {
			return q, usagef("--features: %d is given twice", n)
		}
		values[feature] = value
		q.Sparse.Index = append(q.Sparse.Index, feature)
	}
	slices.Sort(q.Sparse.Index)
	for _, n := range q.Sparse.Index {
		q.Sparse.Value = append(q.Sparse.Value, values[n])
	}
	if len(q.Features) == 0 && q.Sparse.Len() == 0 {
		return q, usagef("--features names no feature")
	}
	return q, nil
}
