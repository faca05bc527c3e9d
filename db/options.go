package db

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/bits"
	"runtime"
	"time"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/vector"
)

// Limits of the contents of a database.
const (
	// MaxDim is the largest dimension of a collection.
	MaxDim = 1 << 16
	// MaxKey is the longest user key or label in bytes.
	MaxKey = 512
	// MaxName is the longest collection or index name in bytes.
	MaxName = 255
	// MaxLabels is the largest number of labels of one row.
	MaxLabels = 1024
	// MaxPayload is the longest payload of a row in bytes.
	MaxPayload = 1 << 20
	// MaxFeature is the largest feature number of a sparse collection.
	MaxFeature = 1<<28 - 1
	// MaxFeatures is the largest number of features of one sparse row.
	MaxFeatures = 1 << 16
)

// Limits of the length of a dense vector. Queries have no minimum length, and the zero vector
// is always allowed.
const (
	// MaxNorm exceeds the length of every vector: the squared length must fit a float32.
	MaxNorm = 0x1p64
	// MinNorm is the minimum length of a row under vector.L2 and vector.InnerProduct: squared
	// distances of shorter rows would underflow a float32.
	MinNorm = 0x1p-62
	// MinCosineNorm is the minimum length of a row under vector.Cosine: coordinates of shorter
	// rows are denormal and have lost digits.
	MinCosineNorm = 0x1p-126
)

// The limits are those of the stored form.
var _ = [1]struct{}{}[(MaxKey-rows.MaxKey)|(MaxLabels-rows.MaxLabels)|
	(MaxPayload-rows.MaxPayload)|(MaxFeatures-rows.MaxFeatures)|
	(MaxDim-kind.MaxDim)|(MaxName-layout.MaxName)|(MaxFeature-kind.MaxFeature)]

// VerifyMode selects when reads verify block checksums. Check verifies all of them in any mode.
type VerifyMode uint8

// The verify modes.
const (
	// VerifyFirst verifies a block the first time that this process reads it.
	VerifyFirst VerifyMode = iota
	// VerifyAlways verifies blocks again for every published generation.
	VerifyAlways
	// VerifyNever verifies nothing; for files that are checked by other means.
	VerifyNever
)

// Options selects how Open opens a database. The zero value is the safe default.
type Options struct {
	// ReadOnly opens for reading only. Any number of processes may do so at the same time, but
	// not concurrently with a writer.
	ReadOnly bool
	// MustExist makes Open fail with fs.ErrNotExist instead of creating a file.
	MustExist bool
	// Sync Off omits every fsync: a crash of the machine may then lose or damage the database.
	// For bulk loads that can be repeated, and tests.
	Sync Switch
	// MapReserve is the address space reserved for the map in bytes, 1 TiB when zero. It takes
	// no memory. If the system refuses it, Open reserves less; when a file outgrows its
	// reservation, writers wait for readers each time it grows.
	MapReserve int64
	// MaxSize bounds the file in bytes; zero means no bound. The file then grows in steps of 1
	// MiB. A write that would exceed the bound is refused with ErrNoSpace and changes nothing;
	// Compact frees space.
	MaxSize int64
	// Timeout is the time that Open waits for the file's lock, 1 s when zero.
	Timeout time.Duration
	// CloseTimeout is the time that Close waits for snapshots, 10 s when zero.
	CloseTimeout time.Duration
	// Verify selects when reads verify block checksums.
	Verify VerifyMode
	// AcceptOlder opens a file with one damaged meta page from the other one, which may be one
	// transaction older. Without it, Open returns ErrCorrupt for such a file.
	AcceptOlder bool
	// BacklogBytes is the amount of data that the transactions of concurrent updates may hold
	// before further ones wait for the disk, 256 MiB when zero. A single transaction may be
	// larger.
	BacklogBytes int64
	// Maintenance is the policy of maintenance in the background; nil means the defaults of its
	// fields. It has no effect with ReadOnly.
	Maintenance *Maintenance
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
	if r.MapReserve < 0 || r.MapReserve > 1<<46 || r.MaxSize < 0 || r.BacklogBytes < 0 ||
		r.Timeout < 0 || r.CloseTimeout < 0 || r.Verify > VerifyNever {
		return r, fmt.Errorf(
			"%w: a negative size or time, a reservation above 64 TiB, or an unknown verify mode", fail.Option)
	}
	return r, nil
}

// Storage selects how a collection's vectors are stored.
type Storage uint8

// The storage modes. The numbers are part of the file format.
const (
	// StorageAuto stores a chunk of rows as bytes if every coordinate in it is an integer from
	// 0 to 255, which is lossless, and as float32 otherwise.
	StorageAuto Storage = iota
	// StorageFloat32 always stores float32.
	StorageFloat32
)

// Numbering is the number of the first feature or coordinate in the files that a collection is
// imported from and in its users' queries. In the API the first is always 0; feature names in
// explanations use the collection's numbering.
type Numbering string

// The numberings.
const (
	// NumberedUnknown is the numbering of a collection whose first import was not from a
	// numbered file.
	NumberedUnknown Numbering = ""
	// NumberedFromZero and NumberedFromOne count from 0 and from 1.
	NumberedFromZero Numbering = "0"
	NumberedFromOne  Numbering = "1"
)

// First returns the number of the first feature.
func (n Numbering) First() uint32 { return layout.Numbering(n).First() }

// Schema describes the rows of a collection: dense vectors of Dim coordinates, or sparse ones
// if Features is set.
type Schema struct {
	// Dim is the number of coordinates of dense vectors, 1 to MaxDim.
	Dim int
	// Metric is the distance of dense vectors, vector.L2 when zero. Sparse ones are compared by
	// cosine.
	Metric vector.Metric
	// Storage selects how dense vectors are stored.
	Storage Storage
	// Features selects sparse vectors and what identifies their features. Their values are not
	// negative and are stored as written; searches and indexes scale them to unit length.
	Features FeatureKind
	// Numbering is the numbering of features or coordinates in files.
	Numbering Numbering
}

// FeatureKind is what identifies the features of sparse vectors.
type FeatureKind uint8

// The kinds of features.
const (
	// Numbered features are numbers (Row.Sparse).
	Numbered FeatureKind = iota + 1
	// Named features have names (Row.Features), which a dictionary in the file maps to numbers.
	Named
)

// resolve checks a schema and fills in its defaults.
func (s Schema) resolve() (Schema, error) {
	if s.Features != 0 {
		switch {
		case s.Features > Named:
			return s, fmt.Errorf("%w: unknown kind of features %d", fail.Option, s.Features)
		case s.Dim != 0 || s.Storage != StorageAuto:
			return s, fmt.Errorf("%w: Dim and Storage are for dense vectors, Features for sparse ones", fail.Option)
		case s.Metric != 0 && s.Metric != vector.Cosine:
			return s, fmt.Errorf("%w: sparse rows are compared by cosine, not by %v", fail.Option, s.Metric)
		}
		s.Metric = vector.Cosine
		return s, layout.Numbering(s.Numbering).Check()
	}
	s.Metric = cmp.Or(s.Metric, vector.L2)
	switch {
	case s.Dim < 1 || s.Dim > MaxDim:
		return s, fmt.Errorf("%w: dimension %d, want 1 to %d", fail.Option, s.Dim, MaxDim)
	case s.Metric > vector.InnerProduct:
		return s, fmt.Errorf("%w: unknown metric %d", fail.Option, s.Metric)
	case s.Storage > StorageFloat32:
		return s, fmt.Errorf("%w: unknown storage %d", fail.Option, s.Storage)
	}
	return s, layout.Numbering(s.Numbering).Check()
}

// Feature is a named feature and its value.
type Feature struct {
	Name  string
	Value float32
}

// Row is one row of a collection.
type Row struct {
	// Key is the user's key, 1 to MaxKey bytes, unique in the collection.
	Key []byte
	// Vector is the row of a dense collection. It has the collection's dimension, and all
	// values are finite.
	Vector []float32
	// Sparse is the row of a sparse collection whose features are numbers.
	// Features ascend, values are finite and not negative; zeros are dropped.
	Sparse vector.Sparse
	// Features is the row of a sparse collection whose features have names, in
	// any order, each at most once.
	Features []Feature
	// Labels are the row's labels; order and repetitions are not kept.
	Labels []string
	// Attributes are named values for filters: strings of at most 512 bytes, integers, floats, bools
	// and times. Reads return int64, float64 and UTC. A name has 1 to 255 bytes. A row has at most
	// 255 attributes, the rows of a collection at most 1,023 different names.
	Attributes map[string]any
	// ExpiresAt, if not zero, is the time from which on no search finds the row. Maintenance deletes
	// it after that.
	ExpiresAt time.Time
	// Payload is arbitrary bytes, at most MaxPayload; empty and nil are the same.
	Payload []byte
	// Row is the row's number. Reads set it and Put ignores it; an update gives the row a new
	// number, and so may a compaction.
	Row uint32
}

// CollectionInfo describes a collection in one snapshot.
type CollectionInfo struct {
	// Name is the collection's name.
	Name string
	// Sparse reports whether rows are sparse vectors, Named whether their features have names.
	Sparse, Named bool
	// Numbering is the numbering of features or coordinates in files.
	Numbering Numbering
	// Dim, Metric and Storage are those the collection was created with; Dim of a sparse
	// collection is one more than the largest feature number in use.
	Dim     int
	Metric  vector.Metric
	Storage Storage
	// Live is the number of rows that are not deleted.
	Live int
	// Rows is the number of row numbers in use, deleted rows included.
	Rows int
	// Sealed is the number of rows in sealed chunks, deleted rows included.
	Sealed int
	// ChunkRows is the number of rows in a chunk.
	ChunkRows int
	// Indexes are the names of its indexes, Attributes those of the attributes that rows have had,
	// sorted.
	Indexes    []string
	Attributes []string `json:",omitempty"`
	// Expires reports whether rows have had an expiry.
	Expires bool `json:",omitempty"`
}

// LabelCount is a label and the number of live rows that carry it.
type LabelCount struct {
	Label string
	Rows  int
}
