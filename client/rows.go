package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/internal/wire"
)

// checkKey refuses keys that no row has, which are no part of a path either.
func checkKey(key []byte) error {
	if len(key) == 0 || len(key) > 512 {
		return fmt.Errorf("%w: key %.40q has %d bytes, want 1 to 512", db.ErrInvalid, key, len(key))
	}
	return nil
}

// Get returns the row with the key. Its number (db.Row.Row) is 0.
func (c Collection) Get(ctx context.Context, key []byte) (db.Row, error) {
	line, _, err := c.get(ctx, key)
	if err != nil {
		return db.Row{}, err
	}
	return wire.ParseRow(line, nil)
}

// get returns a row as JSON, and its version.
func (c Collection) get(ctx context.Context, key []byte) (line json.RawMessage, version string, err error) {
	if err = checkKey(key); err != nil {
		return nil, "", err
	}
	err = c.f.c.do(ctx, get(c.path+"/rows/"+wire.PathKey(key)), func(answer *http.Response) (err error) {
		version = strings.Trim(answer.Header.Get("ETag"), `"`)
		line, err = io.ReadAll(answer.Body)
		return err
	})
	return line, version, err
}

// Has reports whether a row has the key.
func (c Collection) Has(ctx context.Context, key []byte) (bool, error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	n, err := c.Count(ctx, filter.HasKey(key))
	return n > 0, err
}

// Put adds a row, or replaces the row with the same key.
func (c Collection) Put(ctx context.Context, row db.Row) error {
	return c.transact(ctx, func(tx TxCollection) error { return tx.Put(row) })
}

// Insert adds a row like Put, but never replaces one. Errors: db.ErrExists.
func (c Collection) Insert(ctx context.Context, row db.Row) error {
	return c.transact(ctx, func(tx TxCollection) error { return tx.Insert(row) })
}

// Update changes a row, as TxCollection.Update does.
func (c Collection) Update(ctx context.Context, key []byte, edit func(*db.Row)) error {
	return c.transact(ctx, func(tx TxCollection) error { return tx.Update(key, edit) })
}

// Delete removes the row with the key. A key that no row has is no error.
func (c Collection) Delete(ctx context.Context, key []byte) error {
	return c.transact(ctx, func(tx TxCollection) error { return tx.Delete(key) })
}

func (c Collection) transact(ctx context.Context, change func(TxCollection) error) error {
	return c.f.Update(ctx, func(tx *Tx) error { return change(tx.Collection(c.name)) })
}

// Rows iterates over the rows that a filter selects, of one state, in the order of their numbers. It ends
// after an error. Until then the server holds a snapshot, and ends a connection that does not read for long.
func (c Collection) Rows(ctx context.Context, f *filter.Filter) iter.Seq2[db.Row, error] {
	return func(yield func(db.Row, error) bool) {
		path := c.path + "/rows?vectors=base64&where=" + url.QueryEscape(text(f))
		more := true
		err := c.f.c.stream(ctx, path, func(body io.Reader) error {
			lines := bufio.NewReaderSize(body, 64<<10)
			for more {
				line, err := lines.ReadBytes('\n')
				switch {
				case err == io.EOF && len(line) == 0:
					return nil
				case err == io.EOF:
					return io.ErrUnexpectedEOF
				case err != nil:
					return err
				case bytes.HasPrefix(line, []byte(`{"error":`)):
					return lastLine(line)
				}
				row, err := wire.ParseRow(line, nil)
				if err != nil {
					return err
				}
				more = yield(row, nil)
			}
			return nil
		})
		if err != nil && more {
			yield(db.Row{}, err)
		}
	}
}

// lastLine returns the error that ends a stream.
func lastLine(line []byte) error {
	var f wire.Failure
	if err := json.Unmarshal(line, &f); err != nil {
		return err
	}
	return f.Error
}

// Load puts many rows, which the server stores as they arrive, in several transactions. It returns how many
// rows are durable: if the connection breaks or the context ends, that is not known, and 0. An error,
// including one from rows, ends the load. Of o only Insert has an effect; nil options are the defaults.
func (c Collection) Load(ctx context.Context, rows iter.Seq2[db.Row, error], o *db.LoadOptions) (int, error) {
	in, out := io.Pipe()
	r := &request{method: http.MethodPost, path: c.path + "/rows", lines: &upload{Reader: in}, long: true}
	if o != nil && o.Insert {
		r.path += "?insert=true"
	}
	var answer wire.Loaded
	done := make(chan error, 1)
	go func() {
		err := c.f.c.call(ctx, r, &answer)
		_ = in.Close() // ends the loop below
		done <- err
	}()
	bad := c.send(ctx, out, rows)
	_ = out.Close() // so that the server stores, and counts, the rows before a bad one
	err := <-done
	var refused *wire.Error
	if errors.As(err, &refused) {
		answer.Rows = refused.Rows
	}
	return answer.Rows, cmp.Or(err, bad)
}

// send writes rows as lines until the server has answered. It returns the error of a row.
func (c Collection) send(ctx context.Context, out io.Writer, rows iter.Seq2[db.Row, error]) error {
	e := encoder{c: c}
	lines := bufio.NewWriterSize(out, 64<<10)
	var line []byte
	for row, err := range rows {
		if err == nil {
			line, err = e.append(ctx, line[:0], &row)
		}
		if err != nil {
			_ = lines.Flush()
			return err
		}
		if _, err := lines.Write(line); err != nil {
			return nil // the answer has the reason
		}
	}
	_ = lines.Flush()
	return nil
}

// encoder writes rows of a collection in the form of jsonl files.
type encoder struct {
	c     Collection
	empty *dataset.Schema // of rows without vector, features and text, once there was one
}

// append appends the line of a row. It requests the schema of the collection only for a row without parts.
func (e *encoder) append(ctx context.Context, dst []byte, row *db.Row) ([]byte, error) {
	var s dataset.Schema
	text, named, numbered := row.Text != "", row.Features != nil, row.Sparse.Index != nil
	switch {
	case text && (named || numbered) || named && numbered:
		return dst, fmt.Errorf("%w: row %.40q has two of a text, named and numbered features",
			db.ErrInvalid, row.Key)
	case slices.Contains(row.Labels, ""): // which files may have
		return dst, fmt.Errorf("%w: row %.40q has an empty label", db.ErrInvalid, row.Key)
	case text:
		s.Kind = dataset.Text
	case named:
		s = dataset.Schema{Kind: dataset.Sparse, FeatureNames: []string{}}
	case numbered:
		s.Kind = dataset.Sparse
	case row.Vector != nil:
		s.Kind = dataset.Dense
	case e.empty != nil:
		s = *e.empty
	default:
		info, err := e.c.Info(ctx)
		if err != nil {
			return dst, err
		}
		s = rows.Schema(&info)
		e.empty = &s
	}
	s.Base64 = true
	r := *row
	r.Attributes = plain(row.Attributes)
	line, err := rows.AppendJSON(dst, &r, s)
	if err != nil {
		return dst, fmt.Errorf("%w: row %.40q: %w", db.ErrInvalid, row.Key, err)
	}
	return line, nil
}

// plain returns attributes with values of the types that databases return, for all types that they accept.
func plain(attributes map[string]any) map[string]any {
	out := make(map[string]any, len(attributes))
	for name, value := range attributes {
		switch v := reflect.ValueOf(value); {
		case v.CanInt():
			value = v.Int()
		case v.CanUint() && v.Uint() <= math.MaxInt64:
			value = int64(v.Uint())
		case v.CanFloat():
			value = v.Float()
		case v.Kind() == reflect.String:
			value = v.String()
		case v.Kind() == reflect.Bool:
			value = v.Bool()
		}
		out[name] = value
	}
	return out
}
