// Package client calls a server of databases (anndb serve) with the types of package db: queries, options,
// rows and results are the same, and so are the errors that errors.Is finds. A File has what db.DB has, a
// Collection what db.Collection has, with a context in every call.
//
// Functions do not travel: filters must not contain filter.Func or rows by number (db.Collection.RowFilter),
// and calls have no db.Run. The server decides how many goroutines work. Rows have no numbers (db.Row.Row).
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// Errors of calls, besides those of package db, those of contexts, and those of the network.
var (
	ErrUnauthorized = wire.ErrUnauthorized // the token is missing or wrong
	ErrForbidden    = wire.ErrForbidden    // the server does not know the host of the address, without a token
	ErrBusy         = wire.ErrBusy         // the server has too many requests, also after all retries
	ErrEnding       = wire.ErrEnding       // the server has been told to end
	ErrTooLarge     = wire.ErrTooLarge     // the request is larger than the server allows
	ErrChanged      = wire.ErrChanged      // other writers have changed what File.Update has read, every time
)

// Options selects how a Client calls a server; zero fields have the defaults.
type Options struct {
	Token string      // what the server asks for by TCP (--token-file)
	TLS   *tls.Config // of https addresses, such as the authorities to trust
	// Timeout bounds a call with its retries, a minute. Streams (Rows, Load, Backup), builds, maintenance and
	// checks are bounded by their contexts only.
	Timeout time.Duration
	// Retries is how often a request is sent again, 3, none if below 0, with growing pauses: any request that
	// the server has not accepted, because it cannot be reached or is busy (after the time that it names), and
	// reads whose connection breaks or whose server ends. Writes that may have arrived are never sent again.
	Retries int
}

// Client calls one server. Its methods are safe for concurrent use, and so are those of its handles.
// Connections are kept and reused.
type Client struct {
	o    Options
	base string // of all addresses
	http *http.Client
}

// New returns a client of the server at an address: the path of its Unix socket, which is by default that of
// the database with .sock appended, or a URL such as https://example.org:7700. It does not connect yet. nil
// options are the defaults. Errors: db.ErrInvalid.
func New(address string, o *Options) (*Client, error) {
	c := &Client{base: "http://localhost"}
	if o != nil {
		c.o = *o
	}
	c.o.Timeout = cmp.Or(c.o.Timeout, time.Minute)
	c.o.Retries = cmp.Or(c.o.Retries, 3)
	t := &http.Transport{
		TLSClientConfig: c.o.TLS, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, DisableCompression: true,
		TLSHandshakeTimeout: 10 * time.Second,
		// The server asks for the rows of Load once it has accepted the request.
		ExpectContinueTimeout: 10 * time.Second,
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	switch u, err := url.Parse(address); {
	case address == "":
		return nil, fmt.Errorf("%w: no address of a server", db.ErrInvalid)
	case !strings.Contains(address, "://"):
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", address)
		}
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" || u.User != nil:
		return nil, fmt.Errorf("%w: address %.100q: want the path of a socket or http(s)://HOST:PORT",
			db.ErrInvalid, address)
	default:
		c.base = u.Scheme + "://" + u.Host
		t.DialContext, t.Proxy = dialer.DialContext, http.ProxyFromEnvironment
	}
	c.http = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // which is an error: a token is for one host
	}}
	return c, nil
}

// Close closes the connections that no call uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Files returns the names of the served files, where the address is a socket with that of its file first.
func (c *Client) Files(ctx context.Context) ([]string, error) {
	var out wire.Files
	err := c.call(ctx, get("/v1/files"), &out)
	return out.Files, err
}

// File returns a handle of a served file: the base name of its path without extension, unless the server
// gave it another name.
func (c *Client) File(name string) File {
	return File{c: c, path: "/v1/files/" + wire.PathKey([]byte(name))}
}
