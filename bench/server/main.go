// Command server compares searches by the library, over a socket, and of a handler that answers a constant,
// on one data set in one run, and streams of rows with loads and reads by the library.
//
//	go run ./bench/server -data ../shared/data
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anndb/anndb/bench/internal/process"
	"github.com/anndb/anndb/bench/internal/vectors"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
)

const recall = 0.95

func main() {
	data := flag.String("data", os.Getenv("ANNDB_DATA"), "directory of the data sets")
	set := flag.String("set", "fashion-mnist", "name of the data set")
	file := flag.String("file", "", "the database, which is kept; in a temporary folder when empty")
	rounds := flag.Int("rounds", 5, "rounds of all systems, one after the other")
	clients := flag.Int("clients", 4, "requests at once, for searches a second")
	flag.Parse()
	if *data == "" {
		fmt.Fprintln(os.Stderr, "server: SKIPPED: no -data, no ANNDB_DATA")
		return
	}
	b := &bench{rounds: *rounds, clients: *clients}
	if err := b.run(*data, *set, *file); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// bench is a run.
type bench struct {
	rounds, clients int
	set             *vectors.Set
	db              *db.DB
	coll            db.Collection
	client          *http.Client
	answer          []byte   // that of the constant handler, a real one
	bodies          [][]byte // requests with vectors in base64
	arrays          [][]byte // requests with vectors as arrays of numbers
}

func (b *bench) run(data, set, file string) (err error) {
	if b.set, err = vectors.Load(data, set); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "server")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if file == "" {
		file = filepath.Join(dir, "x.anndb")
	}
	b.db, err = db.Open(context.Background(), file, &db.Options{Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return err
	}
	defer b.db.Close()
	if err := b.fill(); err != nil {
		return err
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		return err
	}
	s := server.New(map[string]*db.DB{"x": b.db}, &server.Options{
		Handlers: map[string]http.Handler{"POST /constant": http.HandlerFunc(b.constant)},
	})
	go func() { _ = s.Serve(l) }()
	defer s.Shutdown(context.Background())
	plain := &http.Server{Handler: http.HandlerFunc(b.constant)} // without any of the server's checks
	other, err := net.Listen("unix", filepath.Join(dir, "c"))
	if err != nil {
		return err
	}
	go func() { _ = plain.Serve(other) }()
	defer plain.Close()
	b.client = &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: b.clients,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, address[:1]))
		},
	}}
	if err := b.requests(); err != nil {
		return err
	}
	if err := b.searches(); err != nil {
		return err
	}
	return b.streams()
}

// fill stores the rows and builds the index, unless the file has them.
func (b *bench) fill() (err error) {
	b.coll = b.db.Collection("c")
	if _, err := b.coll.Info(); err == nil {
		return nil
	}
	ctx := context.Background()
	if b.coll, err = b.db.Create(ctx, "c", db.Schema{Dim: b.set.Dim, Metric: b.set.Metric}); err != nil {
		return err
	}
	if _, err := b.coll.Load(ctx, b.rows, nil); err != nil {
		return err
	}
	_, err = b.coll.Build(ctx, "main", &index.Forest{Seed: 1}, nil)
	return err
}

// rows iterates over the rows of the set.
func (b *bench) rows(yield func(db.Row, error) bool) {
	for i := range len(b.set.Base) / b.set.Dim {
		if !yield(db.Row{Key: fmt.Append(nil, i), Vector: b.set.Base[i*b.set.Dim:][:b.set.Dim]}, nil) {
			return
		}
	}
}

// query returns a query of the set.
func (b *bench) query(i int) []float32 { return b.set.Test[i*b.set.Dim:][:b.set.Dim] }

// search searches by the library.
func (b *bench) search(i int) (db.Result, error) {
	return b.coll.Search(context.Background(), db.Query{Vector: b.query(i)}, &db.SearchOptions{Recall: recall})
}

// requests makes the bodies of requests, and verifies that the answers are those of the library.
func (b *bench) requests() error {
	for i := range len(b.set.Test) / b.set.Dim {
		body, err := json.Marshal(wire.Search{
			Query: wire.Query{Vector: b.query(i)}, SearchOptions: db.SearchOptions{Recall: recall},
		})
		if err != nil {
			return err
		}
		b.bodies = append(b.bodies, body)
		if body, err = json.Marshal(map[string]any{"vector": b.query(i), "recall": recall}); err != nil {
			return err
		}
		b.arrays = append(b.arrays, body)
		want, err := b.search(i)
		if err != nil {
			return err
		}
		for _, body := range [][]byte{b.bodies[i], b.arrays[i]} {
			if b.answer, err = b.post(searchURL, body); err != nil {
				return err
			}
			var got wire.Result
			if err := json.Unmarshal(b.answer, &got); err != nil {
				return err
			}
			for j, h := range want.Hits {
				if g := got.Hits[j]; g.Key.Text != string(h.Key) || g.Distance != h.Distance {
					return fmt.Errorf("query %d, hit %d: %v, the library has %v", i, j, g, h)
				}
			}
		}
	}
	return nil
}

const searchURL = "http://s/v1/files/x/collections/c/search"

func (b *bench) constant(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", wire.JSON)
	_, _ = w.Write(b.answer)
}

func (b *bench) post(url string, body []byte) ([]byte, error) {
	answer, err := b.client.Post(url, wire.JSON, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", url, answer.StatusCode, text)
	}
	return text, err
}

// searches measures the times of one request after the other, and requests a second of several clients.
func (b *bench) searches() error {
	systems := []struct {
		name string
		do   func(i int) error
		p50s []float64 // by round, µs
		cpu  []float64 // µs of processor time outside the system a request, of client and server, by round
		rate []float64 // by round, a second
	}{
		{name: "library", do: func(i int) error { _, err := b.search(i); return err }},
		{name: "socket, base64", do: func(i int) error { _, err := b.post(searchURL, b.bodies[i]); return err }},
		{name: "socket, numbers", do: func(i int) error { _, err := b.post(searchURL, b.arrays[i]); return err }},
		{name: "constant", do: func(i int) error {
			_, err := b.post("http://s/constant", b.bodies[i])
			return err
		}},
		{name: "constant, net/http alone", do: func(i int) error {
			_, err := b.post("http://c/constant", b.bodies[i])
			return err
		}},
	}
	n := len(b.bodies)
	for range b.rounds {
		for s := range systems {
			x := &systems[s]
			took := make([]time.Duration, n)
			cpu := process.User()
			for i := range n {
				begin := time.Now()
				if err := x.do(i); err != nil {
					return err
				}
				took[i] = time.Since(begin)
			}
			x.cpu = append(x.cpu, float64((process.User()-cpu).Nanoseconds())/1e3/float64(n))
			slices.Sort(took)
			x.p50s = append(x.p50s, float64(took[n/2].Nanoseconds())/1e3)
			rate, err := b.rate(x.do)
			if err != nil {
				return err
			}
			x.rate = append(x.rate, rate)
		}
	}
	t := table.New("system", "p50_µs:0", "user_µs:0", "over library:0", "per second:0", "of constant:2")
	median := func(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }
	for _, x := range systems {
		t.Add(x.name, median(x.p50s), median(x.cpu), median(x.p50s)-median(systems[0].p50s), median(x.rate),
			median(x.rate)/median(systems[3].rate))
	}
	return t.Write(os.Stdout, table.Markdown)
}

// rate returns how many requests a second several clients make.
func (b *bench) rate(do func(i int) error) (float64, error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, b.clients)
	begin := time.Now()
	for c := range b.clients {
		wg.Go(func() {
			for i := next.Add(1); int(i) < 4*len(b.bodies) && errs[c] == nil; i = next.Add(1) {
				errs[c] = do(int(i) % len(b.bodies))
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return float64(4*len(b.bodies)) / time.Since(begin).Seconds(), nil
}

// streams measures rows in and out, by the library and over the socket.
func (b *bench) streams() error {
	ctx := context.Background()
	rows := len(b.set.Base) / b.set.Dim
	t := table.New("stream", "rows per second:0", "of library:2")
	measure := func(name string, of *float64, do func() error) error {
		begin := time.Now()
		if err := do(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		rate := float64(rows) / time.Since(begin).Seconds()
		if *of == 0 {
			*of = rate
		}
		t.Add(name, rate, rate / *of)
		return nil
	}
	var in, out float64
	load := func(name string, do func(coll string) error) error {
		if _, err := b.db.Create(ctx, "copy", db.Schema{Dim: b.set.Dim, Metric: b.set.Metric}); err != nil {
			return err
		}
		if err := measure(name, &in, func() error { return do("copy") }); err != nil {
			return err
		}
		return b.db.Drop(ctx, "copy")
	}
	get := func(form string, to io.Writer) error {
		answer, err := b.client.Get("http://s/v1/files/x/collections/c/rows?vectors=" + form)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.Copy(to, answer.Body)
		return err
	}
	if err := measure("read, library", &out, func() error {
		for _, err := range b.coll.Rows(ctx, nil) {
			if err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	err := load("load, library", func(coll string) error {
		_, err := b.db.Collection(coll).Load(ctx, b.rows, nil)
		return err
	})
	if err != nil {
		return err
	}
	for _, form := range []string{"base64", "array"} {
		if err := measure("read, "+form, &out, func() error { return get(form, io.Discard) }); err != nil {
			return err
		}
		var lines bytes.Buffer
		if err := get(form, &lines); err != nil {
			return err
		}
		if err := load("load, "+form, func(coll string) error {
			answer, err := b.client.Post("http://s/v1/files/x/collections/"+coll+"/rows", wire.Lines, &lines)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if want := fmt.Sprintf("{\"rows\":%d}\n", rows); err == nil && string(text) != want {
				err = fmt.Errorf("answer %s", text)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return t.Write(os.Stdout, table.Markdown)
}
