package dataset

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Fashion-MNIST as it is published: 60,000 images of 28 x 28 with labels. The
// first is an ankle boot, class 9.
func TestFashionMNIST(t *testing.T) {
	dir := os.Getenv("ANNDB_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	images := filepath.Join(dir, "fashion-mnist", "train-images-idx3-ubyte.gz")
	if _, err := os.Stat(images); err != nil {
		t.Skipf("SKIPPED: Fashion-MNIST was not read, since %v; ANNDB_DATA names the folder with the data sets", err)
	}
	r, err := Open(images, Options{LabelsPath: filepath.Join(dir, "fashion-mnist", "train-labels-idx1-ubyte.gz")})
	must(t, err)
	defer r.Close()
	if r.Schema().Dim != 784 || r.Schema().Records != 60000 {
		t.Fatalf("%d x %d", r.Schema().Records, r.Schema().Dim)
	}
	var rec Record
	classes := map[string]int{}
	n := 0
	for ; ; n++ {
		err := r.Read(&rec)
		if err == io.EOF {
			break
		}
		must(t, err)
		classes[rec.Labels[0]]++
		if n > 0 {
			continue
		}
		sum, peak := float32(0), float32(0)
		for _, v := range rec.Vector {
			sum += v
			peak = max(peak, v)
		}
		if string(rec.Key) != "0" || rec.Labels[0] != "9" || rec.Vector[0] != 0 || peak != 255 || sum != 76247 {
			t.Errorf("first record: key %s, labels %v, first value %v, largest %v, sum %v", rec.Key, rec.Labels, rec.Vector[0], peak, sum)
		}
	}
	if n != 60000 || len(classes) != 10 {
		t.Errorf("%d records, classes %v", n, classes)
	}
	for class, count := range classes {
		if count != 6000 {
			t.Errorf("class %s has %d records, want 6000", class, count)
		}
	}
}
