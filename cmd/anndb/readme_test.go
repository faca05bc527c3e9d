package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/shell/script"
)

// TestReadmeSession runs the commands of the README's section on the shell, in their order, from an
// empty folder. Fashion-MNIST is the slice in testdata; Bibtex is there if its folder is, with fewer rows.
func TestReadmeSession(t *testing.T) {
	unraced(t)
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## In the shell\n")
	section, _, _ = strings.Cut(section, "\n## ")
	bibtex := sessionFiles(t)
	for _, m := range regexp.MustCompile(`(?m)^    anndb (.*)$`).FindAllStringSubmatch(section, -1) {
		if strings.Contains(m[1], "bibtex") && !bibtex {
			continue
		}
		t.Run(m[1], func(t *testing.T) {
			var out, errs bytes.Buffer
			p := command.Program{In: strings.NewReader(""), Out: &out, Errs: &errs, Interruptible: cancelable}
			commands, err := script.Split(m[1])
			if err != nil {
				t.Fatal(err)
			}
			if code := run(t.Context(), &p, commands[0].Words); code != command.ExitOK {
				t.Fatalf("exit code %d: %s", code, errs.String())
			}
			if out.Len() == 0 {
				t.Error("no result")
			}
		})
	}
}

// sessionFiles puts the files of the session into a new folder, which becomes the current one. It
// reports whether Bibtex is among them.
func sessionFiles(t *testing.T) (bibtex bool) {
	t.Helper()
	link := func(from, to string) error {
		from, err := filepath.Abs(from)
		if err == nil {
			_, err = os.Stat(from)
		}
		if err == nil {
			err = os.Symlink(from, to)
		}
		return err
	}
	dir := t.TempDir()
	for from, to := range map[string]string{
		"train-images-idx3": "train-images-idx3", "train-labels-idx1": "train-labels-idx1", "test-images-idx3": "t10k-images-idx3",
	} {
		from = filepath.Join("..", "..", "testdata", "fashion-mnist-"+from+"-ubyte.gz")
		if err := link(from, filepath.Join(dir, to+"-ubyte.gz")); err != nil {
			t.Fatal(err)
		}
	}
	data := os.Getenv("ANNDB_DATA")
	if data == "" {
		data = filepath.Join("..", "..", "..", "shared", "data")
	}
	bibtex = true
	for name, put := range map[string]func(from, to string) error{
		"bibtex-train.arff.gz": firstRows, "bibtex-test.arff.gz": firstRows, "bibtex.xml": link,
	} {
		if err := put(filepath.Join(data, "bibtex", name), filepath.Join(dir, name)); err != nil {
			fmt.Fprintf(os.Stderr, "\n*** TestReadmeSession: SKIPPED the commands on Bibtex: %v\n\n", err)
			bibtex = false
		}
	}
	t.Chdir(dir)
	return bibtex
}

// firstRows copies the header and the first 600 rows of a compressed ARFF file.
func firstRows(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	header, rows, _ := strings.Cut(string(text), "@data\n")
	lines := strings.SplitAfterN(strings.TrimLeft(rows, "\n"), "\n", 601)
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = io.WriteString(w, header+"@data\n"+strings.Join(lines[:min(len(lines), 600)], ""))
	return errors.Join(err, w.Close(), os.WriteFile(to, out.Bytes(), 0o600))
}
