package store

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestGroupLimit(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{
		"memory.max":                              "max\n",
		"user/memory.max":                         "5000\n",
		"user/a/memory.max":                       "7000\n",
		"memory/memory.limit_in_bytes":            "9223372036854771712\n",
		"memory/small/memory.limit_in_bytes":      "300\n",
		"memory/small/tiny/memory.limit_in_bytes": "damaged",
	} {
		path = filepath.Join(dir, path)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, c := range []struct {
		groups string
		want   int64
	}{
		{"", math.MaxInt64},
		{"0::/\n", math.MaxInt64},
		{"0::/user/a\n", 5000},
		{"0::/elsewhere\n", math.MaxInt64},
		{"5:cpu,cpuacct:/small\n4:memory:/small/tiny\n", 300},
		{"4:memory:/\n0::/user\n", 5000},
		{"nonsense\n:\n", math.MaxInt64},
	} {
		if got := groupLimit(dir, c.groups); got != c.want && !(c.want == math.MaxInt64 && got >= math.MaxInt64>>1) {
			t.Errorf("%q: %d, want %d", c.groups, got, c.want)
		}
	}
	if memory() < 1<<20 {
		t.Errorf("the machine has %d bytes", memory())
	}
}
