package autolabels_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/layout"
)

// cut builds a model and is interrupted once so many trials have been made.
func cut(t *testing.T, c db.Collection, name string, o *index.Auto, trials int) index.Info {
	t.Helper()
	stop := make(chan struct{})
	run := &db.Run{Stop: stop, Progress: func(stage string, done, _ int) {
		_, kind, _ := strings.Cut(stage, " (")
		known := slices.Contains([]string{"labeltree)", "lcif)", "at)"}, kind) // no report of a member's tuner
		if known && done == trials {
			close(stop)
			trials = 0
		}
	}}
	info, err := c.Build(t.Context(), name, o, run)
	dbtest.Must(t, err)
	return info
}

// repeated returns the number of trials of a build that were not made again by the next one.
func repeated(before, now index.Info) (n int) {
	for i, x := range before.AutoTrials[:len(before.AutoTrials)-1] {
		if now.AutoTrials[i].Seconds == x.Seconds {
			n++
		}
	}
	return n
}

// timeless returns what was tried without times.
func timeless(i index.Info) []index.AutoTrial {
	list := slices.Clone(i.AutoTrials)
	for j := range list {
		list[j].Seconds = 0
	}
	return list
}

// TestResume: a build that was interrupted, even twice, and is made again gives the model of one that was not,
// and tries only what the others have not.
func TestResume(t *testing.T) {
	dbtest.Whole(t)
	for form := range forms {
		d, rng := library(t, form, 200)
		c := d.Collection("docs")
		whole, err := c.Build(t.Context(), "whole", &index.Auto{Seed: 5}, nil)
		dbtest.Must(t, err)
		all := len(whole.AutoTrials) - 1 // the last one is of the members together
		if whole.Unfinished || all < 5 {
			t.Fatalf("form %d: %+v", form, whole.AutoTrials)
		}
		trials := map[int]int{sparse: 1, dense: all - 1, both: all / 2}[form]
		before := cut(t, c, "cut", &index.Auto{Seed: 5}, trials)
		if form == both { // and with another limit
			again := cut(t, c, "cut", &index.Auto{Seed: 5, Time: time.Hour}, trials+1)
			if repeated(before, again) != trials || len(again.AutoTrials) != trials+2 {
				t.Errorf("form %d: %+v after %+v", form, again.AutoTrials, before.AutoTrials)
			}
			before, trials = again, trials+1
		}
		if !before.Unfinished || len(before.AutoTrials) != trials+1 {
			t.Fatalf("form %d, %d trials: %+v", form, trials, before.AutoTrials)
		}
		dbtest.Must(t, dbtest.Check(d))
		now, err := c.Build(t.Context(), "cut", &index.Auto{Seed: 5}, nil)
		dbtest.Must(t, err)
		if n := repeated(before, now); n != trials || now.Unfinished {
			t.Errorf("form %d: %d of %d trials were not repeated: %+v", form, n, trials, now.AutoTrials)
		}
		if !reflect.DeepEqual(now.Options, whole.Options) || !reflect.DeepEqual(now.Bytes, whole.Bytes) ||
			!reflect.DeepEqual(now.Calibration, whole.Calibration) ||
			!reflect.DeepEqual(timeless(now), timeless(whole)) {
			t.Fatalf("form %d, %d trials before: %+v, want %+v", form, trials, now, whole)
		}
		for i := range 30 {
			r := document(rng, form, i, 7)
			want, err := c.Predict(t.Context(), query(&r), &db.PredictOptions{Index: "whole", Top: 5})
			dbtest.Must(t, err)
			got, err := c.Predict(t.Context(), query(&r), &db.PredictOptions{Index: "cut", Top: 5})
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("form %d, %d trials before: %+v, %v, want %+v", form, trials, got, err, want)
			}
		}
	}
}

// TestResumeElsewhere: other rows, labels or options make a build begin again.
func TestResumeElsewhere(t *testing.T) {
	dbtest.Whole(t)
	const trials, n = 3, 200
	in := func(f func(c db.TxCollection) error) func(*db.DB, *index.Auto) error {
		return func(d *db.DB, _ *index.Auto) error {
			return d.Update(context.Background(), func(b *db.Tx) error { return f(b.Collection("docs")) })
		}
	}
	for name, change := range map[string]func(d *db.DB, o *index.Auto) error{
		"nothing":       func(*db.DB, *index.Auto) error { return nil },
		"a row more":    in(func(c db.TxCollection) error { return c.Put(db.Row{Key: []byte("new")}) }),
		"a row less":    in(func(c db.TxCollection) error { return c.Delete([]byte("3")) }),
		"other labels":  in(func(c db.TxCollection) error { return c.SetLabels([]byte("3"), "x") }),
		"another seed":  func(_ *db.DB, o *index.Auto) error { o.Seed++; return nil },
		"other options": func(_ *db.DB, o *index.Auto) error { o.AllowEmpty = true; return nil },
	} {
		d, _ := library(t, sparse, n)
		o := &index.Auto{}
		before := cut(t, d.Collection("docs"), "auto", o, trials)
		dbtest.Must(t, change(d, o))
		now, err := d.Collection("docs").Build(t.Context(), "auto", o, nil)
		dbtest.Must(t, err)
		if got, want := repeated(before, now), map[bool]int{true: trials}[name == "nothing"]; got != want {
			t.Errorf("%s: %d trials were not repeated, want %d", name, got, want)
		}
	}
}

// TestResumeDamage: a build does without scores that no build has stored.
func TestResumeDamage(t *testing.T) {
	dbtest.Whole(t)
	const trials = 2
	path := filepath.Join(t.TempDir(), "db")
	d := dbtest.OpenAt(t, path, &db.Options{NoSync: true})
	fill(t, d, sparse, 150)
	before := cut(t, d.Collection("docs"), "auto", &index.Auto{}, trials)
	dbtest.Must(t, d.Close())
	pristine, err := os.ReadFile(path)
	dbtest.Must(t, err)
	object := dbtest.Blocks(t, path, "docs", "auto")
	for array, payload := range map[uint32][]byte{
		0: nil, // as it is
		4: binary.LittleEndian.AppendUint64(make([]byte, 8), 1<<40),
		5: bytes.Repeat([]byte{0xff}, 400),
		6: bytes.Repeat([]byte{0xff}, 400),
	} {
		dbtest.Must(t, os.WriteFile(path, pristine, 0o600))
		want := trials
		if array > 0 {
			want = 0
			dbtest.PutBlock(t, path, layout.BucketBlocks, codec.Key(object, codec.KindLabelMatrix, array), payload)
		}
		d := dbtest.OpenAt(t, path, &db.Options{NoSync: true})
		now, err := d.Collection("docs").Build(t.Context(), "auto", &index.Auto{}, nil)
		if err != nil || repeated(before, now) != want {
			t.Errorf("array %d: %+v, %v", array, now.AutoTrials, err)
		}
		dbtest.Must(t, d.Close())
	}
}
