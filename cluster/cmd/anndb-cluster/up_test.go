package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain runs the command in place of the tests in the processes that a test starts.
func TestMain(m *testing.M) {
	if os.Getenv("ANNDB_CLUSTER_TEST") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// command runs the command.
func command(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "ANNDB_CLUSTER_TEST=1")
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// run runs the command to its end.
func run(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd, out := command(t, append([]string{"-c", folder}, args...)...)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out.String()
}

// up starts a cluster, and returns what ends it.
func up(t *testing.T, folder string) (end func()) {
	t.Helper()
	cmd, out := command(t, "up", folder, "--listen", "127.0.0.1:0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		close(ended)
	}()
	end = func() {
		if cmd.Process != nil {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			<-ended
			cmd.Process = nil
		}
	}
	t.Cleanup(end)
	for until := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		select {
		case err := <-ended:
			if strings.Contains(out.String(), "nats-server") {
				t.Skipf("SKIPPED: no nats-server: %s", out)
			}
			t.Fatalf("up ended: %v\n%s", err, out)
		default:
		}
		var c config
		body, err := os.ReadFile(filepath.Join(folder, "cluster.json"))
		if err == nil {
			err = json.Unmarshal(body, &c)
		}
		var answer *http.Response
		if err == nil {
			answer, err = http.Get(c.Gateway + "/readyz")
		}
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return end
			}
		}
		if time.Now().After(until) {
			t.Fatalf("the cluster is not ready: %v\n%s", err, out)
		}
	}
}

// TestUp starts three servers of the log, four nodes and a gateway, compares what they answer with one file, and
// uses the rest of the command. The cluster is ended and started in between.
func TestUp(t *testing.T) {
	if testing.Short() {
		t.Skip("eight processes")
	}
	folder := filepath.Join(t.TempDir(), "c")
	end := up(t, folder)
	if data := os.Getenv("ANNDB_DATA"); data == "" {
		t.Log("SKIPPED: data sets: ANNDB_DATA is not set")
	} else {
		var a app
		must(t, a.load(folder))
		compare := exec.Command("go", "run", "./bench/cluster", "-data", data, "-rows", "1500", "-queries", "20",
			"-gateway", a.Gateway)
		compare.Dir = "../../.."
		out, err := compare.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Error(err)
		}
	}
	run(t, folder, "create", "docs", "--text", "--dim", "2")
	rows := filepath.Join(t.TempDir(), "rows.jsonl")
	var lines bytes.Buffer
	for i := range 100 {
		fmt.Fprintf(&lines, "{\"key\":\"k%d\",\"text\":\"red boot %d\",\"vector\":[%d,1],\"labels\":[\"l%d\"]}\n", i, i, i, i%2)
	}
	if err := os.WriteFile(rows, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(t, folder, "import", "docs", rows); !strings.Contains(out, "100 rows") {
		t.Fatal(out)
	}
	check := func() {
		t.Helper()
		if out := run(t, folder, "count", "docs", "--where", "label = l0"); out != "50\n" {
			t.Fatal(out)
		}
		if out := run(t, folder, "search", "docs", "--text", "boot 7", "--vector", "[7,1]", "-k", "1"); !strings.Contains(out, `"k7"`) {
			t.Fatal(out)
		}
	}
	check()
	backup := filepath.Join(t.TempDir(), "backup")
	run(t, folder, "backup", backup)
	end()
	up(t, folder)
	check()
	await(t, folder, func(status string) bool { return strings.Count(status, "following") == 4 })
	second, out := command(t, "up", folder)
	if err := second.Run(); err == nil || !strings.Contains(out.String(), "end the process of the cluster") {
		t.Errorf("a second up: %v: %s", err, out)
	}

	other := filepath.Join(t.TempDir(), "other")
	up(t, other)
	run(t, other, "restore", backup)
	folder = other
	check()
	if err := os.Remove(filepath.Join(backup, "complete.json")); err != nil {
		t.Fatal(err)
	}
	again, out := command(t, "-c", folder, "restore", backup)
	if err := again.Run(); err == nil || !strings.Contains(out.String(), "no complete backup") {
		t.Errorf("%v: %s", err, out)
	}
	run(t, folder, "split", "0")
	check()
	run(t, folder, "move", "1", "node-1")
	run(t, folder, "remove", "1", "node-4")
	check()
	await(t, folder, func(string) bool { // of three shards on four nodes, none is on node-4
		return strings.Contains(run(t, folder, "rebalance", "--dry-run"), " node-4 --from node-1\n")
	})
	run(t, folder, "rebalance")
	check()
	if out := run(t, folder, "rebalance"); out != "" {
		t.Error(out)
	}
	await(t, folder, func(status string) bool {
		return strings.Contains(status, "shard 0a,") && strings.Contains(status, "shard 0b,") &&
			!strings.Contains(status, "joining")
	})
}

// await waits until the status of a cluster is as it should be: nodes announce themselves every two seconds.
func await(t *testing.T, folder string, right func(status string) bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		out := run(t, folder, "status")
		if right(out) {
			return
		}
		if time.Now().After(until) {
			t.Fatal(out)
		}
	}
}
