// Package serving has the command serve, and runs commands of clients in the process that serves their file.
package serving

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
)

// leastToken is the length of the shortest token in bytes.
const leastToken = 16

// Serve serves database files to other processes.
type Serve struct {
	Files     []string `arg:"" name:"file"`
	Listen    string   `placeholder:"ADDRESS"`
	TokenFile string   `placeholder:"PATH" type:"path" with:"listen"`
	Cert      string   `placeholder:"PATH" type:"path" with:"key"`
	Key       string   `placeholder:"PATH" type:"path" with:"cert"`

	Commands Commands `kong:"-"`
}

// Run serves until the first signal. A second one ends the process at once.
func (c *Serve) Run(a *command.App) (err error) {
	token, err := c.token(a)
	if err != nil {
		return err
	}
	files, err := c.names()
	if err != nil {
		return err
	}
	records := a.Errs
	if a.Flags.Quiet {
		records = io.Discard
	}
	log := slog.New(slog.NewTextHandler(records, nil))
	s := newService(a, c.Commands)
	defer func() { err = errors.Join(err, s.close()) }()
	opened := map[string]*db.DB{}
	for _, f := range files {
		// Explicitly the default: other commands do no maintenance.
		o := db.Options{MustExist: true, Maintenance: &maintenance.Policy{}, Logger: log}
		d, err := command.Open(a, f.path, o)
		if err != nil {
			return err
		}
		opened[f.name] = d
		s.commands.files = append(s.commands.files, command.HostedFile{Path: f.path, DB: d})
	}
	s.http = server.New(opened, &server.Options{
		Token: token, Logger: log, Handlers: map[string]http.Handler{"GET " + commandPath: s.commands},
	})
	for _, f := range files {
		if err := s.listenUnix(f, c.Listen != ""); err != nil {
			return err
		}
	}
	if c.Listen != "" {
		if err := s.listenTCP(c.Listen, c.Cert, c.Key); err != nil {
			return err
		}
	}
	select {
	case <-a.Ctx.Done():
		a.Summary("ends when open requests and commands have finished, within %v", endTime)
		return nil
	case err := <-s.failed:
		return err
	}
}

// servedFile is a database with the name that clients have for it.
type servedFile struct{ name, path string }

// names returns the databases of the arguments, with absolute paths.
func (c *Serve) names() (files []servedFile, err error) {
	seen := map[string]bool{}
	for _, arg := range c.Files {
		name, path, named := strings.Cut(arg, "=")
		if !named || command.Exists(arg) {
			path = arg
			name = wire.FileName(path)
		}
		switch {
		case name == "" || strings.ContainsAny(name, `/\`):
			return nil, command.Usagef("%s: %q is no name for a file: say NAME=FILE", arg, name)
		case seen[name]:
			return nil, command.Usagef("two files have the name %q: say NAME=FILE", name)
		}
		seen[name] = true
		if path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		files = append(files, servedFile{name, path})
	}
	return files, nil
}

// token returns the token that requests by TCP need, empty for none. It refuses addresses that other machines
// reach without one.
func (c *Serve) token(a *command.App) (string, error) {
	if c.Listen == "" {
		if c.Cert != "" {
			return "", command.Usagef("--cert and --key go with --listen")
		}
		return "", nil
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", command.Usagef("--listen %s: want HOST:PORT, as in 127.0.0.1:7700", c.Listen)
	}
	open := host != "localhost" && !net.ParseIP(host).IsLoopback()
	switch {
	case c.TokenFile == "" && open:
		return "", command.Usagef("--listen %s can be reached from other machines: add --token-file, "+
			"and --cert and --key for TLS", c.Listen)
	case c.TokenFile == "":
		return "", nil
	case open && c.Cert == "":
		a.Note("the token and all rows travel to %s without encryption: --cert and --key add TLS", c.Listen)
	}
	text, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < leastToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", command.BadInput("%s: the token has %d bytes: want one line of %d or more visible "+
			"ASCII characters (openssl rand -hex 32)", c.TokenFile, len(token), leastToken)
	}
	return token, nil
}
