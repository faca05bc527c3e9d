package server_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/server"
)

// TestDocumentation runs the commands of docs/SERVER.md and compares what they print. An ellipsis stands for
// any text.
func TestDocumentation(t *testing.T) {
	if out, err := exec.Command("curl", "--help", "all").Output(); err != nil || !strings.Contains(string(out), "--json") {
		t.Skip("SKIPPED: no curl that knows --json")
	}
	text, err := os.ReadFile("../docs/SERVER.md")
	must(t, err)
	if n := strings.Count(string(text), "\n"); n > 150 {
		t.Errorf("the page has %d lines, want at most 150", n)
	}
	dir := t.TempDir()
	d, err := db.Open(t.Context(), filepath.Join(dir, "shop.anndb"), &db.Options{NoSync: true, Maintenance: &maintenance.Policy{Manual: true}})
	must(t, err)
	s := server.New(map[string]*db.DB{"shop": d}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = s.Serve(l) }()
	defer func() {
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		_ = d.Close()
	}()
	for block := range strings.SplitSeq("\n"+string(text), "\n    $ ") {
		command, rest, _ := strings.Cut(block, "\n")
		if !strings.HasPrefix(command, "curl") && !strings.HasPrefix(command, "printf") {
			continue
		}
		var want []string
		for line := range strings.SplitSeq(rest, "\n") {
			if !strings.HasPrefix(line, "    ") {
				break
			}
			want = append(want, line[4:])
		}
		sh := exec.Command("sh", "-c", command)
		sh.Dir, sh.Env = dir, append(os.Environ(), "U=http://"+l.Addr().String()+"/v1/files/shop", "no_proxy=*")
		got, err := sh.Output()
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		if !like(strings.TrimSuffix(string(got), "\n"), strings.Join(want, "\n")) {
			t.Errorf("%s\nprints %s\nwant   %s", command, got, strings.Join(want, "\n"))
		}
	}
}

// like reports whether a text has the parts of a pattern between ellipses, in order, beginning with the first.
func like(text, pattern string) bool {
	first, rest, more := strings.Cut(pattern, "…")
	if !more {
		return text == pattern
	}
	text, ok := strings.CutPrefix(text, first)
	for part := range strings.SplitSeq(rest, "…") {
		at := strings.Index(text, part)
		ok = ok && at >= 0
		text = text[max(at, 0):]
	}
	return ok
}
