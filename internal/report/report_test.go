package report

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
)

// written returns the report of a database with an image collection and one of texts.
func written(t *testing.T, o Options, before func(*db.DB)) string {
	t.Helper()
	ctx := t.Context()
	d, err := db.Open(ctx, filepath.Join(t.TempDir(), "two.anndb"), nil)
	must(t, err)
	defer d.Close()
	images, err := d.Create(ctx, "images <b>", db.Schema{Dim: 28 * 28})
	must(t, err)
	_, err = images.Load(ctx, rows.File("../../testdata/fashion-mnist-train-images-idx3-ubyte.gz", dataset.Options{Max: 300}), nil)
	must(t, err)
	_, err = images.Build(ctx, "main", nil, nil)
	must(t, err)
	files, err := d.Create(ctx, "files", db.Schema{Named: true})
	must(t, err)
	_, err = files.Load(ctx, rows.File("../../testdata/go-files-train.jsonl.gz", dataset.Options{Kind: dataset.Sparse, Max: 200}), nil)
	must(t, err)
	_, err = files.Build(ctx, "imports", &index.LCIF{}, nil)
	must(t, err)
	if before != nil {
		before(d)
	}
	var b strings.Builder
	must(t, Write(ctx, &b, d, o))
	return b.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReport checks that the page is well formed, names what there is, and needs no other file.
func TestReport(t *testing.T) {
	page := written(t, Options{Check: true, Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, nil)
	for _, want := range []string{
		"two.anndb", "2026-01-02 03:04 UTC", "images &lt;b&gt;", "files", "main", "imports", "no damage",
		"by two principal coordinates", "<svg",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"<script", "src=", "href=\"http", "images <b>"} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %q", not)
		}
	}
	for _, part := range strings.SplitAfter(page, "<svg")[1:] {
		end := strings.Index(part, "</svg>")
		d := xml.NewDecoder(strings.NewReader("<svg" + part[:end+len("</svg>")]))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("a chart is not well formed: %v", err)
			}
		}
	}
}

// TestEmpty is about a database without collections, and a cancelled context.
func TestEmpty(t *testing.T) {
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "empty.anndb"), nil)
	must(t, err)
	defer d.Close()
	var b strings.Builder
	must(t, Write(t.Context(), &b, d, Options{}))
	if !strings.Contains(b.String(), "no collection") {
		t.Error("the page of an empty database does not say so")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Write(ctx, io.Discard, d, Options{Check: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestDamage checks that the page of a damaged file has the damage, and that without Check it is an error.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.anndb")
	d, err := db.Open(t.Context(), path, nil)
	must(t, err)
	c, err := d.Create(t.Context(), "images", db.Schema{Dim: 28 * 28})
	must(t, err)
	file := "../../testdata/fashion-mnist-train-images-idx3-ubyte.gz"
	_, err = c.Load(t.Context(), rows.File(file, dataset.Options{Max: 1500}), nil)
	must(t, err)
	row, err := c.Get([]byte("700"))
	must(t, err)
	must(t, d.Close())
	data, err := os.ReadFile(path)
	must(t, err)
	stored := make([]byte, len(row.Vector)) // whole numbers are stored as bytes
	for i, v := range row.Vector {
		stored[i] = byte(v)
	}
	at := bytes.Index(data, stored)
	if at < 0 {
		t.Fatal("the row is not in the file")
	}
	data[at+400]++
	must(t, os.WriteFile(path, data, 0o600))
	d, err = db.Open(t.Context(), path, &db.Options{ReadOnly: true})
	must(t, err)
	defer d.Close()
	var b strings.Builder
	must(t, Write(t.Context(), &b, d, Options{Check: true}))
	for _, want := range []string{"1 damaged places", "rows block", "images"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if err := Write(t.Context(), io.Discard, d, Options{}); !errors.Is(err, db.ErrCorrupt) {
		t.Errorf("without a check: %v", err)
	}
}
