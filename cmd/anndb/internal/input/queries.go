package input

import (
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
)

// Query is a query from anywhere, sparse or dense, with what is known of it.
type Query struct {
	Key    string
	Query  db.Query
	Labels []string
}

// queries are the records of the file as queries to the collection it is read for.
func (in *File) queries() iter.Seq2[Query, error] {
	return func(yield func(Query, error) bool) {
		var rec dataset.Record
		for n := 0; ; n++ {
			err := in.Read(&rec)
			if err == io.EOF && n == 0 {
				err = fmt.Errorf("%s holds no records", in.Path)
			}
			if err == io.EOF {
				return
			}
			var q Query
			if err == nil {
				q.Query, err = in.Query(&rec, in.to.info.Named)
			}
			if err == nil {
				q.Key, q.Labels = string(rec.Key), slices.Clone(rec.Labels)
				if in.Kind == dataset.Text && !in.Keyed {
					q.Key = rec.Text
				}
			}
			if !yield(q, err) || err != nil {
				return
			}
		}
	}
}

// ReadQueries reads all records of a file as queries to a collection. labels is a file of labels next to
// them, or empty.
func ReadQueries(path, labels string, f FileFlags, to Target) (list []Query, err error) {
	in, err := Source{Path: path, Labels: labels, Flags: f, Kind: to.kind(), To: to}.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	for q, err := range in.queries() {
		if err != nil {
			return nil, err
		}
		list = append(list, q)
	}
	return list, nil
}

// ReadVectors reads all vectors of a file, which must have the dimensions of the
// collection. For a collection of both parts they may have features or texts next to them.
func ReadVectors(path string, f FileFlags, to Target) ([][]float32, error) {
	q, err := ReadQueries(path, "", f, to)
	if err != nil && to.info.Sparse && to.info.Dim > 0 {
		vectors := *to.info
		vectors.Sparse, vectors.Named, vectors.Text = false, false, nil
		to.info = &vectors
		q, err = ReadQueries(path, "", f, to)
	}
	if err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(q))
	for i, x := range q {
		vectors[i] = x.Query.Vector
	}
	return vectors, nil
}

// ReadPairs reads queries and, as their keys, those of the rows that belong to them. by, if not nil, makes
// the vectors of those that have none.
func (s Source) ReadPairs(by *Embedder) (queries []db.Query, keys [][]byte, err error) {
	in, err := s.Open()
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	if !in.Keyed {
		return nil, nil, command.BadInput("%s has no keys: each query needs the key of a row that belongs "+
			"to it, in the column or field key, or the one that --key-column names", s.Path)
	}
	each := in.queries()
	if by != nil {
		each = by.Queries(each)
	}
	for q, err := range each {
		if err != nil {
			return nil, nil, err
		}
		if q.Query.Text == "" || q.Query.Vector == nil {
			return nil, nil, command.BadInput("the query for key %q of %s needs a text and a vector "+
				"(--vectors or --embed adds vectors)", q.Key, s.Path)
		}
		queries, keys = append(queries, q.Query), append(keys, []byte(q.Key))
	}
	return queries, keys, nil
}
