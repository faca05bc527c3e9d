package client_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/server"
)

func Example() {
	ctx := context.Background()
	socket, stop := serveShop(ctx) // as "anndb serve shop.anndb" does
	defer stop()

	c, err := client.New(socket, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	boots, err := c.File("shop").Create(ctx, "boots", db.Schema{Dim: 2})
	if err != nil {
		log.Fatal(err)
	}
	_, err = boots.Load(ctx, func(yield func(db.Row, error) bool) {
		for i, key := range []string{"red", "green", "blue"} {
			row := db.Row{Key: []byte(key), Vector: []float32{float32(i), 1}, Attributes: map[string]any{"price": 10 * i}}
			if !yield(row, nil) {
				return
			}
		}
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	found, err := boots.Search(ctx, db.Query{Vector: []float32{2, 1}}, &db.SearchOptions{K: 2})
	if err != nil {
		log.Fatal(err)
	}
	for _, hit := range found.Hits {
		fmt.Printf("%s %g\n", hit.Key, hit.Distance)
	}
	// A transaction runs again if another process changes what it has read.
	err = c.File("shop").Update(ctx, func(tx *client.Tx) error {
		return tx.Collection("boots").Update([]byte("red"), func(row *db.Row) { row.Labels = []string{"sale"} })
	})
	if err != nil {
		log.Fatal(err)
	}
	for row, err := range boots.Rows(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %v %v\n", row.Key, row.Attributes["price"], row.Labels)
	}
	// Output:
	// blue 0
	// green 1
	// red 0 [sale]
	// green 10 []
	// blue 20 []
}

// serveShop serves a new database. stop ends that and removes the database.
func serveShop(ctx context.Context) (socket string, stop func()) {
	dir, err := os.MkdirTemp("", "anndb")
	if err != nil {
		log.Fatal(err)
	}
	d, err := db.Open(ctx, filepath.Join(dir, "shop.anndb"), nil)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("unix", d.Path()+".sock")
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(map[string]*db.DB{"shop": d}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	go func() { _ = s.Serve(l) }()
	return d.Path() + ".sock", func() {
		_ = s.Shutdown(ctx)
		_ = d.Close()
		_ = os.RemoveAll(dir)
	}
}
