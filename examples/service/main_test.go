package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
)

func TestHandler(t *testing.T) {
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "s.anndb"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Create(t.Context(), "rows", db.Schema{Dim: 2}); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler(d))
	defer s.Close()
	for body, want := range map[string]int{
		`{"key": "a", "vector": [1, 2]}`: 200, `{"key": "b", "vector": [1, 4]}`: 200,
		`{"key": "c", "vector": [1]}`: 400, `{`: 400,
	} {
		r, err := http.Post(s.URL+"/rows", "application/json", strings.NewReader(body))
		if err != nil || r.StatusCode != want {
			t.Fatalf("%s: %v, %v", body, r.Status, err)
		}
		r.Body.Close()
	}
	for key, want := range map[string]string{
		"a": "{\"distance\":2,\"key\":\"b\"}\n", "x": "no such row",
	} {
		r, err := http.Get(s.URL + "/near?key=" + key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || !bytes.Contains(got, []byte(want)) {
			t.Errorf("near %s: %q, %v, want %q", key, got, err, want)
		}
	}
}

// TestShutdown checks that the end of the context ends the service and closes the database.
func TestShutdown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.anndb")
	free, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // ends the service once it answers
		defer cancel()
		for ctx.Err() == nil {
			if r, err := http.Get("http://" + address + "/near?key=x"); err == nil {
				r.Body.Close()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if err := run(ctx, path, address); err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), path, nil) // it is not locked
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}
