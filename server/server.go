// Package server serves open databases over HTTP: rows, searches, predictions, transactions and the care of
// files, as docs/SERVER.md describes and openapi.json lists. It opens no files and no listeners. Whatever a
// request says is checked: a bad one is refused, logged, and changes nothing.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// Options selects how a Server serves; zero fields have the defaults.
type Options struct {
	// Token is what requests send as "Authorization: Bearer TOKEN", but for those by a Unix socket; empty
	// asks for none.
	Token  string
	Logger *slog.Logger // receives a record of each request, slog.Default when nil
	// MaxBody bounds the bodies that are held in memory, 32 MiB. Imports are streams and have no bound.
	MaxBody int64
	// MaxRequests bounds the reads at the same time, and the changes, 64 of each; more are answered with 429.
	// MaxConnections bounds the open connections of Serve, 2,048.
	MaxRequests, MaxConnections int
	// Timeout bounds requests but for streams and long calls, a minute. Stall is how long a peer may send
	// or receive nothing, 30 s; it has to be at least as fast as 16 KiB a second over longer times.
	Timeout, Stall time.Duration
	// Handlers are further routes by pattern, behind the same checks of host, origin and token. They have
	// none of the other limits, unless the pattern is that of a route of every server: whose place they take.
	Handlers map[string]http.Handler
	// Metrics appends further metrics to those of the server.
	Metrics func(w io.Writer)
	// Find resolves the names of files in place of those that New has, if it is set. The answer may have
	// headers.
	Find Find
	// Failed is called with the error of each request that has failed, if it is set.
	Failed func(r *http.Request, err error)
}

// Find returns the file with a name for a request.
type Find func(w http.ResponseWriter, r *http.Request, name string) (*db.DB, error)

// Server is an http.Handler of databases.
type Server struct {
	o       Options
	files   map[string]*db.DB
	mux     *http.ServeMux
	http    *http.Server
	reads   chan struct{} // one for each read at the same time
	changes chan struct{} // one for each change at the same time
	token   [32]byte
	metrics metrics
	running running
	open    atomic.Int64 // connections
	ending  atomic.Bool
	stop    context.CancelFunc // ends the requests of Serve
}

// New returns a server of open databases by the names that they have in paths. nil options are the defaults.
func New(files map[string]*db.DB, o *Options) *Server {
	s := &Server{files: files, mux: http.NewServeMux()}
	if o != nil {
		s.o = *o
	}
	s.o.Logger = cmp.Or(s.o.Logger, slog.Default())
	s.o.MaxBody = cmp.Or(s.o.MaxBody, 32<<20)
	s.o.MaxRequests = cmp.Or(s.o.MaxRequests, 64)
	s.o.MaxConnections = cmp.Or(s.o.MaxConnections, 2048)
	s.o.Timeout = cmp.Or(s.o.Timeout, time.Minute)
	s.o.Stall = cmp.Or(s.o.Stall, 30*time.Second)
	s.reads, s.changes = make(chan struct{}, s.o.MaxRequests), make(chan struct{}, s.o.MaxRequests)
	if s.o.Find == nil {
		s.o.Find = s.served
	}
	s.token = digest(s.o.Token)
	var base context.Context
	base, s.stop = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return base }, ConnState: s.count,
		ErrorLog: slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelDebug),
	}
	all := slices.Clone(routes)
	for pattern, h := range s.o.Handlers {
		if at := slices.IndexFunc(all, func(r route) bool { return r.pattern == pattern }); at >= 0 {
			all[at].extra = h
		} else {
			all = append(all, route{pattern: pattern, extra: h})
		}
	}
	for _, route := range all {
		s.metrics.add(route.pattern)
		s.mux.Handle(route.pattern, s.handler(route))
	}
	return s
}

// replace answers a request of a route by a handler, which checks the file and the parameters itself.
func (c *call) replace(h http.Handler) error {
	r := c.r.WithContext(c.ctx)
	r.Body = io.NopCloser(c.body())
	h.ServeHTTP(c.response, r)
	return nil
}

// Serve serves the connections of a listener until Shutdown, and then returns http.ErrServerClosed. Headers,
// idle connections and their number are bounded.
func (s *Server) Serve(l net.Listener) error { return s.http.Serve(l) }

// Shutdown ends the server: it is not ready any more, accepts no connections, and waits for the requests in
// progress. When the context is done, it cancels these.
func (s *Server) Shutdown(ctx context.Context) error {
	s.ending.Store(true)
	err := s.http.Shutdown(ctx)
	s.stop()
	if err != nil {
		// A cancelled request answers, or ends its connection, at once.
		last, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.http.Shutdown(last) != nil {
			_ = s.http.Close()
		}
	}
	return err
}

// count closes connections of which there are too many.
func (s *Server) count(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.open.Add(1) > int64(s.o.MaxConnections) {
			s.o.Logger.Warn("too many connections", "remote", c.RemoteAddr().String())
			_ = c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
}

// route is a pattern of requests and what answers them.
type route struct {
	pattern string
	do      func(*call) error
	long    bool         // a stream, or a call without deadline
	public  bool         // needs no token, has no limit of requests
	extra   http.Handler // in place of do, if there is one
	names   []string     // of the parameters that the address may have
}

// routes are the routes of every server. openapi.json describes them.
var routes = []route{
	{pattern: "GET /healthz", do: health, public: true},
	{pattern: "GET /readyz", do: ready, public: true},
	{pattern: "GET /openapi.json", do: openAPI, public: true},
	{pattern: "GET /metrics", do: showMetrics},
	{pattern: "GET /{$}", do: page, public: true},
	{pattern: "GET /page/{name}", do: page, public: true},
	{pattern: "GET " + collection + "/map", do: reply(showMap)},
	{pattern: "GET " + collection + "/recall.svg", do: showRecall},
	{pattern: "GET /v1/files", do: reply(listFiles)},
	{pattern: "GET /v1/files/{file}", do: reply(stats)},
	{pattern: "POST /v1/files/{file}/check", do: reply(check), long: true},
	{pattern: "POST /v1/files/{file}/maintain", do: body(maintain), long: true},
	{pattern: "POST /v1/files/{file}/compact", do: body(compact), long: true},
	{pattern: "GET /v1/files/{file}/backup", do: backup, long: true},
	{pattern: "POST /v1/files/{file}/transactions", do: body(transact)},
	{pattern: "GET /v1/files/{file}/collections", do: reply(listCollections)},
	{pattern: "POST /v1/files/{file}/collections", do: createCollection},
	{pattern: "GET " + collection, do: reply(describeCollection)},
	{pattern: "PATCH " + collection, do: body(changeCollection), long: true},
	{pattern: "DELETE " + collection, do: reply(dropCollection)},
	{pattern: "GET " + collection + "/rows", do: exportRows, long: true,
		names: []string{"where", "vectors", "limit"}},
	{pattern: "POST " + collection + "/rows", do: importRows, long: true, names: []string{"insert"}},
	{pattern: "GET " + collection + "/rows/{key}", do: getRow},
	{pattern: "PUT " + collection + "/rows/{key}", do: putRow},
	{pattern: "PATCH " + collection + "/rows/{key}", do: updateRow},
	{pattern: "DELETE " + collection + "/rows/{key}", do: deleteRow},
	{pattern: "POST " + collection + "/search", do: reply(search)},
	{pattern: "POST " + collection + "/predict", do: reply(predict)},
	{pattern: "POST " + collection + "/count", do: body(count)},
	{pattern: "GET " + collection + "/indexes", do: reply(listIndexes)},
	{pattern: "POST " + collection + "/indexes/{index}", do: body(buildIndex), long: true},
	{pattern: "PATCH " + collection + "/indexes/{index}", do: body(changeIndex)},
	{pattern: "DELETE " + collection + "/indexes/{index}", do: reply(dropIndex)},
	{pattern: "POST /v1/vector_stores/{store}/search", do: body(searchStore)},
	{pattern: "POST /v1/vector_stores/{store}/files", do: body(attachFile)},
	{pattern: "GET /v1/vector_stores/{store}/files/{key}", do: reply(describeStored)},
	{pattern: "POST /v1/vector_stores/{store}/files/{key}", do: body(updateStored)},
	{pattern: "DELETE /v1/vector_stores/{store}/files/{key}", do: reply(deleteStored)},
}

// collection is the path of a collection.
const collection = "/v1/files/{file}/collections/{collection}"

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	address := r.URL.EscapedPath()
	if clean := path.Clean(address); clean != address && clean+"/" != address {
		s.handler(route{do: func(*call) error {
			return fmt.Errorf("%w: the path has .., . or empty parts", wire.ErrRoute)
		}}).ServeHTTP(w, r)
		return
	}
	d := &unrouted{ResponseWriter: w}
	if s.mux.ServeHTTP(d, r); d.routed {
		return
	}
	s.handler(route{do: func(*call) error {
		if d.status != http.StatusMethodNotAllowed {
			return fmt.Errorf("%w: %s", wire.ErrRoute, r.URL.EscapedPath())
		}
		return fmt.Errorf("%w: %.20q, want %s", wire.ErrMethod, r.Method, w.Header().Get("Allow"))
	}}).ServeHTTP(w, r)
}

// unrouted is what the mux answers to when no route does: it keeps the status and the header, and drops the
// body. A route takes the writer in it.
type unrouted struct {
	http.ResponseWriter

	routed bool
	status int
}

func (d *unrouted) Write(b []byte) (int, error) { return len(b), nil }
func (d *unrouted) WriteHeader(status int)      { d.status = status }

// call is a request in progress.
type call struct {
	*response

	r    *http.Request
	s    *Server
	ctx  context.Context
	file *db.DB        // that of the path, if it has one
	coll db.Collection // that of the path, if it has one
}

// handler returns what checks the requests of a route, answers and records them.
func (s *Server) handler(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d, ok := w.(*unrouted); ok {
			d.routed, w = true, d.ResponseWriter
		}
		begin := time.Now()
		c := &call{response: newResponse(w, s.o.Stall), r: r, s: s, ctx: r.Context()}
		defer func() {
			fault := recover()
			if fault != nil && fault != http.ErrAbortHandler {
				s.o.Logger.Error("panic", "route", route.pattern, "fault", fault, "stack", string(debug.Stack()))
				c.fail(fmt.Errorf("a fault of the server, see its log"))
			}
			s.record(c, route.pattern, time.Since(begin), fault)
			if fault != nil {
				panic(http.ErrAbortHandler) // ends the connection: what was sent may be incomplete
			}
		}()
		if err := c.serve(route); err != nil {
			c.fail(err)
		}
		if c.status >= http.StatusBadRequest && r.Header.Get("Expect") != "" {
			linger(w)
		}
	})
}

// linger has net/http wait before it closes a connection whose client still sends, so that the client reads
// the answer. It does so by itself for bodies over a bound, but not (Go 1.26) for those that clients ask for
// first (Expect: 100-continue).
func linger(w http.ResponseWriter) {
	over := http.MaxBytesReader(w, io.NopCloser(strings.NewReader("x")), 0)
	_, _ = io.Copy(io.Discard, over)
}

// serve checks the request and answers it.
func (c *call) serve(route route) error {
	h := c.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	c.bound(c.s.o.Stall)
	switch {
	case route.public && route.extra != nil:
		return c.replace(route.extra)
	case route.public:
		return route.do(c)
	}
	if err := c.s.admit(c.r); err != nil {
		return err
	}
	if route.do == nil {
		route.extra.ServeHTTP(c.response, c.r)
		return nil
	}
	slots, kind := c.s.reads, "reads"
	if !Reads(c.r) {
		slots, kind = c.s.changes, "changes" // which may wait for each other
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	default:
		return fmt.Errorf("%w: more than %d %s", wire.ErrBusy, c.s.o.MaxRequests, kind)
	}
	if c.s.ending.Load() {
		h.Set("Connection", "close")
	}
	if !route.long {
		var cancel context.CancelFunc
		c.ctx, cancel = context.WithTimeout(c.ctx, c.s.o.Timeout)
		defer cancel()
	}
	if route.extra != nil {
		return c.replace(route.extra)
	}
	if err := c.find(); err != nil {
		return err
	}
	if err := c.parameters(route.names); err != nil {
		return err
	}
	return route.do(c)
}

// asking are the paths of requests that change nothing by POST.
var asking = []string{
	"/v1/files/*/collections/*/search", "/v1/files/*/collections/*/predict", "/v1/files/*/collections/*/count",
	"/v1/files/*/check", "/v1/vector_stores/*/search",
}

// Reads reports whether a request changes nothing.
func Reads(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead ||
		r.Method == http.MethodPost && slices.ContainsFunc(asking, func(pattern string) bool {
			ok, _ := path.Match(pattern, r.URL.EscapedPath())
			return ok
		})
}

// parameters refuses parameters of the address but for those with the names.
func (c *call) parameters(names []string) error {
	if c.r.URL.RawQuery == "" {
		return nil
	}
	given, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return fmt.Errorf("%w: the parameters of the address: %w", db.ErrInvalid, err)
	}
	for name := range given {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%w: unknown parameter %.40q in the address", db.ErrInvalid, name)
		}
	}
	return nil
}

// find resolves the file and the collection of the path.
func (c *call) find() error {
	if c.r.PathValue("store") != "" {
		return c.openStore()
	}
	name := c.r.PathValue("file")
	if name == "" {
		return nil
	}
	var err error
	if c.file, err = c.s.o.Find(c, c.r, name); err != nil {
		return err
	}
	c.coll = c.file.Collection(c.r.PathValue("collection"))
	return nil
}

// served returns one of the files of New.
func (s *Server) served(_ http.ResponseWriter, _ *http.Request, name string) (*db.DB, error) {
	if d := s.files[name]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("%w: no file %q is served (GET /v1/files lists them)", db.ErrNotFound, name)
}

// fail answers with an error, or ends the connection if an answer has begun.
func (c *call) fail(err error) {
	if errors.Is(err, context.Canceled) && c.s.ending.Load() {
		err = fmt.Errorf("%w: %w", wire.ErrEnding, err)
	}
	if errors.Is(err, wire.ErrSlow) || errors.Is(err, wire.ErrTooLarge) {
		c.Header().Set("Connection", "close")
		c.bound(0)
	} else if c.status == 0 {
		c.bound(c.s.o.Stall)
	}
	c.response.fail(err)
}

// record counts a request and logs it.
func (s *Server) record(c *call, pattern string, took time.Duration, fault any) {
	status := c.status
	if fault != nil {
		status = 0 // what was begun did not end
	}
	s.metrics.count(pattern, c, status, took)
	if c.err != nil && s.o.Failed != nil {
		s.o.Failed(c.r, c.err)
	}
	level := slog.LevelDebug
	gone := c.r.Context().Err() != nil && !c.s.ending.Load()
	switch {
	case gone && (fault == nil || fault == http.ErrAbortHandler): // the client is, which is no fault
	case status >= 500 || fault != nil:
		level = slog.LevelError
	case status >= 400 && status != http.StatusNotFound && status != http.StatusConflict &&
		status != http.StatusPreconditionFailed:
		level = slog.LevelWarn
	}
	if !s.o.Logger.Enabled(context.Background(), level) {
		return
	}
	attributes := []slog.Attr{
		slog.String("method", c.r.Method), slog.String("path", c.r.URL.EscapedPath()), slog.Int("status", status),
		slog.Duration("took", took), slog.Int64("sent", c.sent), slog.String("remote", c.r.RemoteAddr),
	}
	if c.err != nil {
		attributes = append(attributes, slog.String("error", c.err.Error()))
	}
	s.o.Logger.LogAttrs(context.Background(), level, "request", attributes...)
}

func health(c *call) error {
	c.answer(http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
	return nil
}

func ready(c *call) error {
	if c.s.ending.Load() {
		return wire.ErrEnding
	}
	for name, d := range c.s.files {
		if err := d.View(func(*db.Snapshot) error { return nil }); err != nil {
			return fmt.Errorf("file %q: %w", name, err)
		}
	}
	return health(c)
}

// Local reports whether a request came by a Unix socket.
func Local(r *http.Request) bool {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && strings.HasPrefix(a.Network(), "unix")
}
