package db

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"runtime"
	"time"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/sample"
	"github.com/anndb/anndb/vector"
)

// Options selects how Open opens a database.
type Options struct {
	// ReadOnly opens for reading only, as any number of processes may do while none writes.
	ReadOnly bool
	// MustExist makes Open fail with fs.ErrNotExist instead of creating a file.
	MustExist bool
	// Sync Off omits every fsync: a crash of the machine may then lose or damage the database.
	Sync Switch
	// MapReserve is the address space reserved for the map in bytes, 1 TiB, or what the system
	// grants, when zero; it takes no memory. When a file outgrows it, writers wait for readers each
	// time it grows.
	MapReserve int64
	// MaxSize bounds the file in bytes; zero means no bound. A write that would exceed it is
	// refused with ErrNoSpace and changes nothing; Compact frees space.
	MaxSize int64
	// Timeout is the time that Open waits for the file's lock, 1 s when zero.
	Timeout time.Duration
	// CloseTimeout is the time that Close waits for snapshots, 10 s when zero.
	CloseTimeout time.Duration
	// AcceptOlder opens a file with one damaged meta page, otherwise ErrCorrupt, from the other
	// one, which may be one transaction older.
	AcceptOlder bool
	// BacklogBytes is the amount of data that the transactions of concurrent updates may hold
	// before further ones wait for the disk, 256 MiB when zero.
	BacklogBytes int64
	// Maintenance is the policy of maintenance in the background; nil means the defaults of its fields.
	Maintenance *Maintenance
	// SampleQueries is the number of queries of each dense collection that a uniform sample
	// keeps in memory: 0 for none, or 20 to 10,000. Maintenance measures and tunes recall on them as
	// well, the remedy for queries that are unlike the rows. Searches by vector with an index are
	// sampled, without a filter, a radius or Params.
	SampleQueries int
	// Logger receives warnings; nil discards them.
	Logger *slog.Logger
}

const (
	defaultReserve = 1 << 40
	defaultTimeout = time.Second
	defaultDrain   = 10 * time.Second
	defaultBacklog = 256 << 20
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
	if r.Timeout == 0 {
		r.Timeout = defaultTimeout
	}
	if r.CloseTimeout == 0 {
		r.CloseTimeout = defaultDrain
	}
	if r.BacklogBytes == 0 {
		r.BacklogBytes = defaultBacklog
	}
	if err := r.Sync.check("Sync"); err != nil {
		return r, err
	}
	var m Maintenance
	if r.Maintenance != nil {
		m = *r.Maintenance
	} else {
		m.Manual = !maintainByDefault
	}
	m, err := m.resolve()
	if err != nil {
		return r, err
	}
	r.Maintenance = &m
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	if n := r.SampleQueries; n != 0 && (n < sample.Least || n > sample.Most) {
		return r, fmt.Errorf("%w: a sample of %d queries, want 0 or %d to %d", fail.Option, n,
			sample.Least, sample.Most)
	}
	if r.MapReserve < 0 || r.MapReserve > 1<<46 || r.MaxSize < 0 || r.BacklogBytes < 0 ||
		r.Timeout < 0 || r.CloseTimeout < 0 {
		return r, fmt.Errorf(
			"%w: a negative size or time, or a reservation above 64 TiB", fail.Option)
	}
	return r, nil
}

// Schema describes the rows of a collection: dense ones, or sparse if Sparse or Named is set. A
// collection with the Schema of another one's CollectionInfo holds rows of the same form.
type Schema struct {
	// Sparse selects sparse vectors, Named those whose features have names (Row.Features) instead of
	// numbers (Row.Sparse). Values are not negative; searches and indexes scale rows to unit length.
	Sparse, Named bool
	// Dim is the number of coordinates of dense vectors, 1 to 65,536; of sparse ones, in
	// CollectionInfo, one more than the largest feature number in use.
	Dim int
	// Metric is the distance of dense vectors, vector.L2 when zero; that of sparse ones is the cosine.
	Metric vector.Metric
	// Bytes selects whether a chunk of dense rows is stored as bytes, without loss, if all of its
	// coordinates are integers from 0 to 255. All others are stored as float32.
	Bytes Switch
	// Numbering is the number of the first feature or coordinate in the files that the collection
	// is imported from, "0" or "1"; empty if unknown. In the API the first is always 0.
	Numbering string
}

// resolve checks a schema and fills in its defaults.
func (s Schema) resolve() (Schema, error) {
	if s.Sparse = s.Sparse || s.Named; s.Sparse {
		if s.Metric != 0 && s.Metric != vector.Cosine {
			return s, fmt.Errorf("%w: sparse rows are compared by cosine, not by %v", fail.Option, s.Metric)
		}
		s.Dim, s.Metric, s.Bytes = 0, vector.Cosine, ""
		return s, layout.Numbering(s.Numbering).Check()
	}
	s.Metric = cmp.Or(s.Metric, vector.L2)
	switch {
	case s.Dim < 1 || s.Dim > kind.MaxDim:
		return s, fmt.Errorf("%w: dimension %d, want 1 to %d", fail.Option, s.Dim, kind.MaxDim)
	case s.Metric > vector.InnerProduct:
		return s, fmt.Errorf("%w: unknown metric %d", fail.Option, s.Metric)
	}
	return s, errors.Join(s.Bytes.check("Bytes"), layout.Numbering(s.Numbering).Check())
}

// Feature is a named feature and its value.
type Feature struct {
	Name  string
	Value float32
}

// Row is one row of a collection.
type Row struct {
	// Key is 1 to 512 bytes, unique in the collection.
	Key []byte
	// Vector is the row of a dense collection: finite values, as many as the collection's Dim.
	Vector []float32
	// Sparse is the row of a sparse collection with numbered features, which ascend. Values are
	// finite and not negative; zeros are dropped.
	Sparse vector.Sparse
	// Features is the row of a sparse collection with named features, in any order, each at most once.
	Features []Feature
	// Labels are the row's labels; order and repetitions are not kept.
	Labels []string
	// Attributes are named values for filters: strings of at most 512 bytes, integers, floats, bools and
	// times, all of an attribute of one type. Reads return int64, float64 and UTC. A name has 1 to 255
	// bytes. A row has at most 255 attributes, the rows of a collection at most 1,023 different names.
	Attributes map[string]any
	// ExpiresAt, if not zero, is the time from which on no search finds the row. Maintenance deletes
	// it after that.
	ExpiresAt time.Time
	// Payload is at most 1 MiB of any bytes; empty and nil are the same.
	Payload []byte
	// Row is the row's number, which reads set. An update gives the row a new one, and so may Compact.
	Row uint32
}

// CollectionInfo describes a collection in one snapshot.
type CollectionInfo struct {
	Name string
	Schema
	// Live is the number of rows. Rows is the number of row numbers in use, deleted rows included,
	// Sealed the number of those in chunks.
	Live, Rows, Sealed int
	// Attributes are the names of the attributes that rows have had, Expires reports whether any had
	// an expiry.
	Indexes, Attributes []string `json:",omitempty"`
	Expires             bool     `json:",omitempty"`
}

// LabelCount is a label and the number of live rows that carry it.
type LabelCount struct {
	Label string
	Rows  int
}
