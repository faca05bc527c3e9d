package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/anndb/anndb/client"
)

// served is a file of a server (anndb serve).
type served struct {
	client.File
	c       *client.Client
	address string
}

// Dial returns a database of the server at an address: a URL or the path of a socket. The name of the file
// may be empty for the only one of the server, or that of the socket.
func Dial(ctx context.Context, address, token, file string) (Database, error) {
	c, err := client.New(address, &client.Options{Token: token, Retries: -1})
	if err != nil {
		return nil, err
	}
	names, err := c.Files(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("server %s: %w", address, err)
	case file == "" && (len(names) == 1 || len(names) > 1 && !strings.Contains(address, "://")):
		file = names[0]
	case !slices.Contains(names, file):
		return nil, fmt.Errorf("server %s has no file %q; say one of them with --file: %s", address, file,
			strings.Join(names, ", "))
	}
	return served{c.File(file), c, address}, nil
}

func (s served) name() string { return s.address }

func (s served) read(_ context.Context, use func(state) error) error { return use(s) }

func (s served) update(ctx context.Context, collection string, change func(writes) error) error {
	return s.Update(ctx, func(tx *client.Tx) error { return change(tx.Collection(collection)) })
}

func (s served) Close() error {
	s.c.Close()
	return nil
}

func (s served) Collection(name string) reads { return s.File.Collection(name) }
