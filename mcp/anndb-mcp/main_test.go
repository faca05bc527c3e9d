package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/text"
)

// TestStdio runs two servers of one file as programs, one of which writes.
func TestStdio(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	binary, file := filepath.Join(dir, "anndb-mcp.exe"), filepath.Join(dir, "notes.anndb")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(binary, file).CombinedOutput(); err == nil || !strings.Contains(string(out), "anndb import") {
		t.Errorf("a file that does not exist: %v: %s", err, out)
	}
	if out, err := exec.Command(binary).CombinedOutput(); err == nil || !strings.Contains(string(out), "want one file") {
		t.Errorf("no file: %v: %s", err, out)
	}
	d, err := db.Open(ctx, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(ctx, "notes", db.Schema{Text: &text.Schema{}}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	reader, writer := start(t, binary, file), start(t, binary, file, "--write")
	if got := call(t, reader, "search", map[string]any{"text": "milk"}); !strings.Contains(got, `"hits":[]`) {
		t.Error(got)
	}
	row := map[string]any{"key": "n1", "text": "buy milk", "attributes": map[string]any{"done": false}}
	if got := call(t, writer, "put", map[string]any{"rows": []any{row}}); got != `{"added":1,"changed":0}` {
		t.Error(got)
	}
	for _, session := range []*mcp.ClientSession{reader, writer} {
		got := call(t, session, "search", map[string]any{"text": "milk", "filter": "done = false"})
		if !strings.Contains(got, "buy milk") {
			t.Error(got)
		}
	}
}

// start starts a server, which ends once its standard input is closed.
func start(t *testing.T, arguments ...string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
	transport := &mcp.CommandTransport{Command: exec.Command(arguments[0], arguments[1:]...)}
	session, err := client.Connect(context.Background(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	return session
}

func call(t *testing.T, s *mcp.ClientSession, tool string, arguments map[string]any) string {
	t.Helper()
	res, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	if res.IsError {
		t.Fatalf("%s: %s", tool, res.Content[0].(*mcp.TextContent).Text)
	}
	out, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
