package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anndb/anndb/cluster/clustertest"
)

// certificate writes a certificate of 127.0.0.1 and its key, signed by an authority, nil for one that signs itself.
func certificate(
	t *testing.T, path string, by *x509.Certificate, key *ecdsa.PrivateKey,
) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	x := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: filepath.Base(path)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if by == nil {
		x.IsCA, x.BasicConstraintsValid, x.KeyUsage = true, true, x509.KeyUsageCertSign
		by, key = x, own
	}
	der, err := x509.CreateCertificate(rand.Reader, x, by, &own.PublicKey, key)
	must(t, err)
	secret, err := x509.MarshalECPrivateKey(own)
	must(t, err)
	for suffix, block := range map[string]*pem.Block{
		".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "EC PRIVATE KEY", Bytes: secret},
	} {
		must(t, os.WriteFile(path+suffix, pem.EncodeToMemory(block), 0o600))
	}
	x, err = x509.ParseCertificate(der)
	must(t, err)
	return x, own
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTLS runs two nodes and a gateway with certificates of an authority that cluster.json names, and uses them.
// Without the authority a client gets an error.
func TestTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("four processes")
	}
	servers, folder := clustertest.Start(t, 1), t.TempDir()
	ca, key := certificate(t, filepath.Join(folder, "ca"), nil, nil)
	certificate(t, filepath.Join(folder, "node"), ca, key)
	at := fmt.Sprint("127.0.0.1:", clustertest.Port(t))
	c := config{
		Cluster: "tls", Log: servers.URL(), Gateway: "https://" + at, Token: "secret",
		NodeCA: filepath.Join(folder, "ca.crt"),
	}
	must(t, writeJSON(filepath.Join(folder, "cluster.json"), c))
	run(t, folder, "init", "a", "--shards", "1", "--replicas", "1")
	start := func(args ...string) {
		cert := []string{"--cert", filepath.Join(folder, "node.crt"), "--key", filepath.Join(folder, "node.key")}
		cmd, out := command(t, append(append([]string{"-c", folder}, args...), cert...)...)
		must(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil || t.Failed() {
				t.Log(args, err, out)
			}
		})
	}
	start("node", "a", filepath.Join(folder, "a"), "--listen", "127.0.0.1:0")
	start("node", "b", filepath.Join(folder, "b"), "--listen", "127.0.0.1:0")
	start("gateway", "--listen", at)
	await(t, folder, func(status string) bool {
		return strings.Contains(status, "https://127.0.0.1:") && strings.Contains(status, "following")
	})
	run(t, folder, "create", "docs", "--text")
	rows := filepath.Join(folder, "rows.jsonl")
	must(t, os.WriteFile(rows, []byte(`{"key":"k","text":"red boots"}`+"\n"), 0o600))
	run(t, folder, "import", "docs", rows)
	run(t, folder, "move", "0", "b", "--from", "a")
	if out := run(t, folder, "search", "docs", "--text", "boots"); !strings.Contains(out, `"k"`) {
		t.Fatal(out)
	}
	run(t, folder, "backup", filepath.Join(folder, "backup"))
	c.NodeCA = ""
	must(t, writeJSON(filepath.Join(folder, "cluster.json"), c))
	cmd, out := command(t, "-c", folder, "count", "docs")
	if err := cmd.Run(); err == nil || !strings.Contains(out.String(), "certificate") {
		t.Fatalf("%v: %s", err, out)
	}
}
