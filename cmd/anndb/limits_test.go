package main

import (
	"testing"
)

// TestLimits: options beyond what a collection has, or against what it is, are
// errors that name the limit.
func TestLimits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	build := []string{"build", f.file, "things", "x"}
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{append(build, "--labels-k", "100000"), "at most 600", exitUsage},
		{append(build, "--hops", "100000"), "at most 599", exitUsage},
		{append(build, "--rotate", "5000"), "at most 8", exitUsage},
		{append(build, "--holdout", "5000"), "at most 60", exitUsage},
		{[]string{"tune", f.file, "things", "x", "--graph", "700", "--second-orders", "0.5"}, "at most 599", exitUsage},
		{[]string{"tune", f.file, "things", "x", "--folds", "100000"}, "at most 600", exitUsage},
		{[]string{"tune", f.file, "things", "x", "--kind", "at", "--folds", "100000"}, "at most 600", exitUsage},
		{[]string{"maintain", f.file, "--share", "5"}, "want 0 to 1", exitUsage},
		{[]string{"evaluate", f.file, "things", "--holdout", "1000"}, "600 rows", exitUsage},
		{[]string{"evaluate", f.file, "things", "--holdout", "0"}, "at least 1", exitUsage},
		{[]string{"import", f.file, "things", f.rows, "--metric", "cosine", "--key-prefix", "p"}, "metric l2", exitUsage},
		{[]string{"import", f.file, "things", f.rows, "--float-32", "--key-prefix", "p"}, "--float-32", exitUsage},
		{[]string{"drop", f.file, "nothing"}, "no such collection", exitError},
		{[]string{"backup", f.file, f.file, "--force"}, "the database itself", exitUsage},
		{[]string{"restore", f.file, f.file, "--force"}, "the database itself", exitUsage},
	} {
		fails(t, c.code, c.want, c.args...)
	}
	must(t, "import", f.file, "things", f.rows, "--metric", "l2", "--key-prefix", "p", "--limit", "1")
	in := f.path("neg.libsvm")
	write(t, in, "a 1:-1\n")
	fails(t, exitError, "import with --dense", "import", f.file, "sparse", in)
	write(t, in, "a 1:1\n")
	fails(t, exitUsage, "--metric", "import", f.file, "sparse", in, "--metric", "l2")
	must(t, "check", f.file)
}

// TestMessages: errors name what a user of the command knows.
func TestMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	must(t, "build", f.file, "things", "x", "--no-tune")
	fails(t, exitError, `"things" has no label model`, "predict", f.file, "things", "--vector", "1,2,3,4,5,6,7,8")
	fails(t, exitUsage, "out of the range of float32", "search", f.file, "things", "--vector", "1e39,2,3,4,5,6,7,8")
	fails(t, exitUsage, "keep members", "search", f.file, "things", "--vector", "1,2,3,4,5,6,7,8", "--method", "voting")
	in := f.path("semicolons.csv")
	write(t, in, "key;a;b\nx;1;2\n")
	fails(t, exitError, "read as csv: --as", "import", f.file, "new", in)
	in = f.path("cut.data")
	write(t, in, "2 10 5\n0 0:1 1:1\n9 1:1\n")
	fails(t, exitError, "read as xmc: --as", "import", f.file, "new", in)
}
