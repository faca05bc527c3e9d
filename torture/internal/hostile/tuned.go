package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/query"
)

// curve has settings of every kind. The tuner's depend on the time that they took, so that a seed would
// not repeat its mutants.
func curve() *query.Curve {
	leaves := query.Point{Params: query.Params{Tau: 0.02, Sketch: true, R: 15}, Recall: 0.6, Micros: 1}
	more := query.Point{Params: query.Params{Tau: 0.01, Sketch: true, R: 20}, Recall: 0.85, Micros: 2}
	gap := query.Point{Params: query.Params{Sketch: true, Beam: 30, R: 15, Gap: 0.3, GapFloor: 0.1}, Recall: 0.92, Micros: 3}
	beam := query.Point{Params: query.Params{Sketch: true, Beam: 40, R: 20, Extra: 1}, Recall: 0.96,
		Users: 0.95, Micros: 4}
	scan := query.Point{Params: query.Params{Method: query.Flat, Sketch: true, R: 60}, Recall: 0.999, Micros: 9}
	return &query.Curve{K: 10, Queries: 30, Points: []query.Point{leaves, more, gap, beam, scan}, Sampled: 20,
		Reach: 1e9, Scan: 20, Rows: 300, Depths: []query.Curve{
			{K: 1, Queries: 10, Points: []query.Point{gap, beam}}, {K: 100, Queries: 5, Points: []query.Point{beam, scan}}, {K: 1000}}}
}

// fixCurves gives all tuned forests of a database that is about to be closed the same curve.
func fixCurves(ctx context.Context, d *db.DB) error {
	path := d.Path()
	if err := d.Close(); err != nil {
		return err
	}
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		return err
	}
	return errors.Join(b.Update(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte("meta")).Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, kind, _ := codec.ParseKey(k); kind != codec.KindManifest {
				continue
			}
			if err := fixCurve(tx, k, v); err != nil {
				return err
			}
		}
		return nil
	}), b.Close())
}

// fixCurve replaces the curves of a manifest that has some.
func fixCurve(tx *bbolt.Tx, key, value []byte) error {
	block, err := codec.Parse(value)
	if err != nil {
		return err
	}
	data, err := block.Data(codec.MaxRaw)
	if err != nil {
		return err
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	var info map[string]any
	if err := json.Unmarshal(m["Info"], &info); err != nil {
		return err
	}
	if info["curve"] == nil {
		return nil
	}
	info["curve"] = curve()
	if m["Info"], err = json.Marshal(info); err != nil {
		return err
	}
	var segments []map[string]any
	if err := json.Unmarshal(m["Segments"], &segments); err != nil {
		return err
	}
	for _, g := range segments {
		if detail, ok := g["Detail"].(map[string]any); ok && detail["Curve"] != nil {
			detail["Curve"] = curve()
		}
	}
	if m["Segments"], err = json.Marshal(segments); err != nil {
		return err
	}
	if data, err = json.Marshal(m); err != nil {
		return err
	}
	value = codec.Encode(key, block.Header, data)
	for _, bucket := range []string{"meta", "blocks"} {
		if err := tx.Bucket([]byte(bucket)).Put(key, value); err != nil {
			return fmt.Errorf("curve of an index: %w", err)
		}
	}
	return nil
}
