package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
)

const (
	endTime    = 30 * time.Second // for open requests and commands at the end, before they are interrupted
	hangUpTime = 5 * time.Second  // for those that are interrupted
)

// service is what runs while files are served.
type service struct {
	a         *command.App
	http      *server.Server
	commands  *commands
	interrupt context.CancelFunc // of commands
	failed    chan error         // of a listener
}

func newService(a *command.App, run Commands) *service {
	ctx, interrupt := context.WithCancel(context.WithoutCancel(a.Ctx))
	return &service{
		a: a, commands: &commands{run: run, ctx: ctx}, interrupt: interrupt, failed: make(chan error, 1),
	}
}

// listenUnix serves requests and commands by the socket next to a file. Where its path is too long for a
// socket that is an error, or a note if there is another way to the server.
func (s *service) listenUnix(f servedFile, reachable bool) error {
	path := wire.Socket(f.path)
	if err := removeStale(path); err != nil {
		return err
	}
	l, err := listenPrivate(path)
	if err != nil {
		err = fmt.Errorf("%s: no socket can be made there: %w", path, cause(err))
		if !reachable {
			return fmt.Errorf("%w (a short path has room for one; --listen 127.0.0.1:7700 needs none)", err)
		}
		s.a.Note("%v", err)
		return nil
	}
	s.start(l)
	s.a.Summary("%s is served as %s at %s", f.path, f.name, path)
	return nil
}

// removeStale removes a socket that a server has left that was killed. The caller has the lock of the
// database, which a running server of it would have.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (info.Mode().IsRegular() || info.IsDir()) {
		return fmt.Errorf("%s is no socket: move it elsewhere, the server makes its socket there", path)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close()
		return fmt.Errorf("%s is the socket of another server: stop that first", path)
	}
	return errors.Join(err, os.Remove(path))
}

// listenTCP serves requests at an address, by TLS if there is a certificate.
func (s *service) listenTCP(address, cert, key string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", address, cause(err))
	}
	scheme := "http"
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			_ = l.Close()
			return fmt.Errorf("--cert %s, --key %s: %w", cert, key, err)
		}
		scheme = "https"
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	}
	s.start(l)
	s.a.Summary("listening at %s://%s", scheme, l.Addr())
	return nil
}

// cause is the error of a call of the network without the call and its addresses.
func cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// start serves the connections of a listener.
func (s *service) start(l net.Listener) {
	go func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			select {
			case s.failed <- fmt.Errorf("%s: %w", l.Addr(), cause(err)):
			default: // another one has ended the service
			}
		}
	}()
}

// close ends the service: new connections are refused, open requests and commands finish or are interrupted
// after a while, and the files are closed. Sockets go while the files are still locked.
func (s *service) close() (err error) {
	ctx, stop := context.WithTimeout(context.Background(), endTime)
	defer stop()
	var requests sync.WaitGroup
	if s.http != nil {
		requests.Go(func() { _ = s.http.Shutdown(ctx) }) // its error is that of ctx
	}
	ended := make(chan struct{})
	go func() {
		requests.Wait() // so that no command begins
		s.commands.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	s.interrupt()
	select {
	case <-ended:
	case <-time.After(2 * hangUpTime):
	}
	for _, f := range s.commands.files {
		err = errors.Join(err, command.Explain(f.Path, f.DB.Close()))
	}
	return err
}
