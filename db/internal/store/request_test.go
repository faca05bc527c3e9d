package store

import (
	"os"
	"testing"
)

// A file that is larger than the memory requests pages, once each while they are remembered.
func TestRequests(t *testing.T) {
	o := testOptions()
	if f := mustOpen(t, makeFile(t, 1000), o); f.Requests() != nil {
		t.Error("a small file requests pages")
	}
	o.Memory = 4096
	f := mustOpen(t, makeFile(t, 1000), o)
	if f.Requests() == nil {
		t.Fatal("a file larger than the memory requests no pages")
	}
	f.Requests()(nil)
}

func TestRemembered(t *testing.T) {
	page := os.Getpagesize()
	r := newRequests(int64(64 * page))
	var asked int
	r.ask = func(b []byte) { asked += len(b) }
	mem := make([]byte, 40*page)
	check := func(what string, b []byte, want int) {
		t.Helper()
		asked = 0
		if r.request(b); asked != want {
			t.Errorf("%s: asked for %d bytes, want %d", what, asked, want)
		}
	}
	check("a part", mem[:100], 100)
	check("the same part", mem[:100], 0)
	check("two pages", mem[50:page+50], page)
	check("the same pages", mem[:page+70], 0)
	check("many pages", mem, len(mem))
	check("many pages again", mem, len(mem))
	for p := range 40 {
		r.request(mem[p*page:][:1])
	}
	check("a page that was forgotten", mem[:1], 1)
	check("nothing", nil, 0)
	if n := testing.AllocsPerRun(10, func() { r.request(mem[:5000]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
