package dataset

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// realSet is what is known of a file without this package: the numbers of rows, features and labels, and the
// mean numbers of features and labels of a row.
type realSet struct {
	file             string
	rows             int64
	features, labels int
	fcard, lcard     float64 // 0: not checked
	names            string  // list of label names beside it, with its column
	column           int
}

var realSets = []realSet{
	{file: "medical/medical-train.arff.gz", rows: 333, features: 1449, labels: 45, fcard: 13.24, lcard: 1.255},
	{file: "corel5k/Corel5k-sparse.arff.gz", rows: 5000, features: 499, labels: 374, fcard: 8.3, lcard: 3.52},
	{file: "bibtex/bibtex-train.arff.gz", rows: 4880, features: 1836, labels: 159, fcard: 68.49, lcard: 2.38},
	{file: "delicious/delicious-train.arff.gz", rows: 12920, features: 500, labels: 983, fcard: 18.54, lcard: 19.047},
	{file: "imdb/Imdb.arff.bz2", rows: 120919, features: 1001, labels: 28, fcard: 19.4, lcard: 2},
	{file: "enron/enron-train.arff.gz", rows: 1123, features: 1001, labels: 53},
	{file: "yeast/yeast-train.arff.gz", rows: 1500, features: 103, labels: 14},
	{file: "rcv1sub1/rcv1sub1.txt.gz", rows: 6000, features: 47236, labels: 101, names: "labels.txt.gz"},
	{file: "eurlex57k/eurlex57k-train.txt.gz", rows: 45000, features: 32212, labels: 4271, fcard: 115.2, lcard: 5.07, names: "labels.txt.gz", column: 2},
	{file: "eurlex57k/eurlex57k-dev.txt.gz", rows: 6000, features: 32212, labels: 4271, names: "labels.txt.gz", column: 1},
	{file: "news20-bydate/news20-bydate-train.txt.gz", rows: 11314, features: 1403220, labels: 20, fcard: 364, lcard: 1, names: "labels.txt.gz"},
	{file: "yahoo_business/yahoo_business.txt.gz", rows: 11214, features: 21924, labels: 30, fcard: 102, lcard: 1.6, names: "labels.txt.gz"},
	{file: "ng20/ng20.txt.gz", rows: 19300, features: 1006, labels: 20, fcard: 32.1, lcard: 1.03, names: "labels.txt.gz"},
	{file: "binary/madelon.libsvm.gz", rows: 2600, features: 0, labels: 0},
}

func dataDir(t *testing.T, file string) string {
	t.Helper()
	dir := os.Getenv("ANNDB_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	path := filepath.Join(dir, filepath.FromSlash(file))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED: %s was not read, since %v; ANNDB_DATA names the folder with the data sets", file, err)
	}
	return path
}

// The published sets, by their shapes. -short leaves out the two largest.
func TestRealSparseSets(t *testing.T) {
	for _, set := range realSets {
		t.Run(set.file, func(t *testing.T) {
			t.Parallel()
			path := dataDir(t, set.file)
			if info, err := os.Stat(path); err == nil && info.Size() > 1<<20 && testing.Short() {
				t.Skip("SKIPPED: large, and -short was given")
			}
			var o Options
			if set.names != "" {
				var err error
				if o.LabelNames, err = ReadNames(filepath.Join(filepath.Dir(path), set.names), set.column); err != nil {
					t.Fatal(err)
				}
			}
			r, err := Open(path, asSparse(o))
			must(t, err)
			defer r.Close()
			rows, features, entries, labels := int64(0), uint32(0), 0, 0
			seen := map[string]bool{}
			var rec Record
			for {
				if err := r.Read(&rec); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				if n := rec.Features.Len(); n > 0 {
					features = max(features, rec.Features.Index[n-1]+1)
				}
				entries += rec.Features.Len()
				labels += len(rec.Labels)
				for _, l := range rec.Labels {
					seen[l] = true
				}
				rows++
			}
			t.Logf("%s: fcard %.2f, lcard %.3f, %d labels met, %d features", r.Schema().Format, float64(entries)/float64(rows), float64(labels)/float64(rows), len(seen), features)
			if rows != set.rows || r.Schema().Dim != set.features || r.Schema().Labels != set.labels {
				t.Errorf("%d rows, %d features, %d labels", rows, r.Schema().Dim, r.Schema().Labels)
			}
			if set.features > 0 && int(features) > set.features || set.labels > 0 && len(seen) > set.labels {
				t.Errorf("met %d features, %d labels", features, len(seen))
			}
			if n := r.Schema().LabelNames; n != nil {
				for _, l := range n {
					delete(seen, l)
				}
				if len(seen) > 0 {
					t.Errorf("labels %v are not listed", seen)
				}
			}
			near := func(what string, sum int, want float64) {
				digits := 0.05
				if what == "lcard" {
					digits = 0.005
				}
				if want >= 100 {
					digits = 0.5
				}
				if got := float64(sum) / float64(rows); want > 0 && math.Abs(got-want) > digits+1e-9 {
					t.Errorf("%s is %.4f, want %g", what, got, want)
				}
			}
			near("fcard", entries, set.fcard)
			near("lcard", labels, set.lcard)
		})
	}
}

// Keys beside the records and names by column.
func TestRealKeys(t *testing.T) {
	path := dataDir(t, "eurlex57k/eurlex57k-dev.txt.gz")
	dir := filepath.Dir(path)
	r, err := Open(path, asSparse(Options{KeysPath: filepath.Join(dir, "eurlex57k-dev.celex.txt.gz")}))
	must(t, err)
	defer r.Close()
	all, err := readAll(t, r)
	must(t, err)
	first := all[0]
	if string(first.Key) != "31960D0712" || first.Labels[0] != "306" || first.Features.Index[0] != 8 || first.Features.Value[4] != 3 {
		t.Errorf("first record: key %s, labels %v, features %v", first.Key, first.Labels, first.Features)
	}
	words, err := ReadNames(filepath.Join(dir, "vocabulary.txt.gz"), 1)
	must(t, err)
	if len(words) != 32212 || words[0] != "common" {
		t.Errorf("%d words, the first %q", len(words), words[0])
	}
}

// Medical's relation name has a -C left over from a conversion; the XML file
// is what counts. Enron's XML is in another order than the attributes.
func TestRealLabelPlaces(t *testing.T) {
	for file, want := range map[string][2]string{
		"medical/medical-train.arff.gz": {"Class-0-593_70", "-"},
		"enron/enron-train.arff.gz":     {"A.A1", "0"},
		"imdb/Imdb.arff.bz2":            {"Sci-Fi", "-"},
	} {
		t.Run(file, func(t *testing.T) {
			r, err := Open(dataDir(t, file), asSparse(Options{}))
			must(t, err)
			defer r.Close()
			if got := [2]string{r.Schema().LabelNames[0], r.Schema().FeatureNames[0]}; got != want {
				t.Errorf("first label and feature %q, want %q", got, want)
			}
		})
	}
}
