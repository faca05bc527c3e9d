package db

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"runtime"
	"time"

	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/sample"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/db/trace"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// Options selects how Open opens a database; zero fields have the defaults.
type Options struct {
	ReadOnly  bool // open for reading only, as any number of processes may while none writes
	MustExist bool // fail with fs.ErrNotExist instead of creating a file
	NoSync    bool // omit every fsync: a crash of the machine may lose or damage the database
	// MapReserve is the address space reserved for the map in bytes, 1 TiB or what the system grants;
	// it takes no memory. Once a file outgrows it, writers wait for readers whenever it grows.
	MapReserve int64
	// MaxSize bounds the file in bytes, at least 2 MiB; 0 is no bound. A write that would exceed it fails
	// with ErrNoSpace.
	MaxSize      int64
	Timeout      time.Duration // how long Open waits for the file's lock, 1 s
	CloseTimeout time.Duration // how long Close waits for snapshots, 10 s
	// AcceptOlder opens a file with a damaged meta page (ErrCorrupt) by the other, maybe a transaction older.
	AcceptOlder bool
	Maintenance *maintenance.Policy // the policy of maintenance in the background
	// SampleQueries is how many queries of each dense collection are kept, 100 to 10,000; 0 is 500, -1 keeps
	// none. Builds and maintenance measure recall on this uniform sample as well, for queries that are
	// unlike the rows. Searches by vectors without filter, radius or Params are sampled.
	SampleQueries int
	Logger        *slog.Logger // receives warnings
	Trace         trace.Func   // gets a span of each search, prediction, commit, build and step of maintenance
}

const (
	defaultReserve = 1 << 40
	defaultTimeout = time.Second
	defaultDrain   = 10 * time.Second
	backlog        = 256 << 20 // bytes of concurrent updates that wait for the disk
	noSample       = -1
	// leastMaxSize is the size of a file that has grown once.
	leastMaxSize = 2 << 20
)

// resolve returns a copy of o with the defaults filled in.
func (o *Options) resolve() (Options, error) {
	var r Options
	if o != nil {
		r = *o
	}
	if r.MapReserve == 0 {
		r.MapReserve = defaultReserve
		if bits.UintSize < 64 {
			r.MapReserve = 1 << 29
		}
	}
	if runtime.GOOS == "windows" {
		// Windows would extend the file itself to the reservation.
		r.MapReserve = 0
	}
	r.Timeout = cmp.Or(r.Timeout, defaultTimeout)
	r.CloseTimeout = cmp.Or(r.CloseTimeout, defaultDrain)
	var m maintenance.Policy
	if r.Maintenance != nil {
		m = *r.Maintenance
	} else {
		m.Manual = !maintainByDefault
	}
	m, err := m.Resolve()
	if err != nil {
		return r, err
	}
	r.Maintenance = &m
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	r.SampleQueries = cmp.Or(r.SampleQueries, sample.Default)
	if n := r.SampleQueries; n != noSample && (n < sample.Least || n > sample.Most) {
		return r, fmt.Errorf("%w: a sample of %d queries, want %d to %d, or %d for none", fail.Option, n,
			sample.Least, sample.Most, noSample)
	}
	if r.MaxSize != 0 && r.MaxSize < leastMaxSize {
		return r, fmt.Errorf("%w: MaxSize %d, want 0 (no bound) or at least %d bytes", fail.Option, r.MaxSize,
			leastMaxSize)
	}
	if r.MapReserve < 0 || r.MapReserve > 1<<46 || r.Timeout < 0 || r.CloseTimeout < 0 {
		return r, fmt.Errorf("%w: a negative size or time, or a reservation above 64 TiB", fail.Option)
	}
	return r, nil
}

// Schema describes the rows of a collection: dense vectors if Dim is set, features if Sparse, Named or Text
// is, or both; then each row has one of them or both. A collection with the Schema of another one's
// CollectionInfo holds rows of the same form.
type Schema struct {
	// Sparse selects sparse vectors, Named those whose features have names (Row.Features) instead of
	// numbers (Row.Sparse). Values are not negative; searches and indexes scale rows to unit length.
	Sparse bool `json:"sparse,omitempty"`
	Named  bool `json:"named,omitempty"`
	Dim    int  `json:"dim,omitempty"` // the number of coordinates of dense vectors, 1 to 65,536
	// Metric is the distance of dense vectors, vector.L2 when zero; that of sparse ones is the cosine.
	Metric vector.Metric `json:"metric,omitempty"`
	// Float32 stores all dense rows as float32. Otherwise a chunk of rows of which all coordinates are
	// integers from 0 to 255 is stored as bytes, without loss.
	Float32 bool `json:"float32,omitempty"`
	// Text, if not nil, makes a collection of texts (Row.Text): sparse rows whose features are terms.
	Text *text.Schema `json:"text,omitempty"`
	// Weight is that of the vector in searches by a vector and a text or features, rank.DefaultWeight
	// when zero. Collection.TuneFusion chooses it.
	Weight float64 `json:"weight,omitempty"`
	// Numbering is the number of the first feature or coordinate in the files that the collection
	// is imported from, "0" or "1"; empty if unknown. In the API the first is always 0.
	Numbering string `json:"numbering,omitempty"`
	// Meta are names with values that the program keeps with the collection, at most 64. Errors about the
	// dimension of a vector name that of "model".
	Meta map[string]string `json:"meta,omitempty"`
}

// resolve checks a schema and fills in its defaults.
func (s Schema) resolve() (Schema, error) {
	if err := s.resolveText(); err != nil {
		return s, err
	}
	s.Sparse = s.Sparse || s.Named
	if s.Weight != 0 && (s.Dim == 0 || !s.Sparse) {
		return s, fmt.Errorf("%w: a weight of the vector, for rows that have one part", fail.Option)
	}
	if err := errors.Join(layout.CheckWeight(s.Weight), layout.CheckMeta(s.Meta)); err != nil {
		return s, err
	}
	if s.Dim == 0 && s.Sparse {
		switch {
		case s.Metric != 0 && s.Metric != vector.Cosine:
			return s, fmt.Errorf("%w: metric %v for rows without vectors (Dim is 0)", fail.Option, s.Metric)
		case s.Float32:
			return s, fmt.Errorf("%w: Float32 is for vectors, and Dim is 0", fail.Option)
		}
		s.Metric = vector.Cosine
		return s, layout.Numbering(s.Numbering).Check()
	}
	s.Metric = cmp.Or(s.Metric, vector.L2)
	switch {
	case s.Dim < 1 || s.Dim > kind.MaxDim:
		return s, fmt.Errorf("%w: dimension %d, want 1 to %d", fail.Option, s.Dim, kind.MaxDim)
	case s.Metric > vector.InnerProduct:
		return s, fmt.Errorf("%w: unknown metric %d", fail.Option, s.Metric)
	}
	return s, layout.Numbering(s.Numbering).Check()
}

// Row is one row of a collection. Vector is set in a dense collection, one of Sparse, Features and
// Text in a sparse one, and one of them, or both, in a collection of both.
type Row struct {
	Key      []byte           // 1 to 512 bytes, unique in the collection
	Vector   []float32        // dense: Schema.Dim finite values
	Sparse   vector.Sparse    // numbered features, ascending; values finite and >= 0, zeros are dropped
	Features []vector.Feature // named features in any order, each at most once
	Text     string           // UTF-8 without NUL, at most 1 MiB and 65,536 different terms
	Labels   []string         // a set
	// Attributes are values by name for filters: strings of at most 512 bytes, integers, floats, bools
	// and times, in one attribute all of one type. Reads return int64, float64 and UTC. A name has 1 to
	// 255 bytes; a row has at most 255 attributes, the rows of a collection 1,023 different ones.
	Attributes map[string]any
	ExpiresAt  time.Time // if set, no read or search finds the row from then on, and maintenance deletes it
	Payload    []byte    // at most 1 MiB; empty and nil are the same
	// Row is the row's number, set by reads. An update gives the row a new one, and so may Compact.
	Row uint32
}

// CollectionInfo describes a collection in one state.
type CollectionInfo struct {
	Name string `json:"name"`
	Schema
	Live       int      `json:"rows"`               // rows, with expired ones until maintenance deletes them
	Rows       int      `json:"row_numbers"`        // row numbers in use, deleted rows included
	Sealed     int      `json:"sealed"`             // rows in chunks
	Features   int      `json:"features,omitempty"` // of sparse rows: one more than the largest number in use
	Indexes    []string `json:"indexes,omitempty"`  // the names of all
	Attributes []string `json:"attributes,omitempty"`
	Expires    bool     `json:"expires,omitempty"` // whether any row has had an expiry

	types map[string]attribute.Type // of the attributes, also of those of checked rows
}
