// Command service searches a database, and accepts rows, by HTTP. Try:
//
//	curl -d '{"key": "a", "vector": [1, 2]}' localhost:8080/rows
//	curl 'localhost:8080/near?key=a'
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/anndb/anndb/db"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "service.anndb", "localhost:8080"); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends. Then it finishes the requests at hand and closes the database. A crash
// instead would lose no row that a client was told of.
func run(ctx context.Context, path, address string) (err error) {
	d, err := db.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if _, err := d.Create(ctx, "rows", db.Schema{Dim: 2}); err != nil && !errors.Is(err, db.ErrExists) {
		return err
	}
	server := &http.Server{Addr: address, Handler: handler(d), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		within, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ended <- server.Shutdown(within)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

func handler(d *db.DB) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /rows", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Key    string
			Vector []float32
		}
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&in)
		if err == nil {
			row := db.Row{Key: []byte(in.Key), Vector: in.Vector}
			err = d.Update(r.Context(), func(tx *db.Tx) error { return tx.Collection("rows").Put(row) })
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	mux.HandleFunc("GET /near", func(w http.ResponseWriter, r *http.Request) {
		q := db.Query{Key: []byte(r.FormValue("key"))}
		near, err := d.Collection("rows").Search(r.Context(), q, &db.SearchOptions{K: 5})
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		for _, h := range near.Hits {
			_ = json.NewEncoder(w).Encode(map[string]any{"key": string(h.Key), "distance": h.Distance})
		}
	})
	return mux
}
