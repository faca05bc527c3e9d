package db

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/vector"
)

// catalogFormat is the version of the file format: of the catalog's JSON and of everything it
// refers to.
const catalogFormat = 1

// catalog is the root of the stored data: it names the collections, their counters and their
// indexes. It is one small block that every commit rewrites.
type catalog struct {
	Format      int
	Object      uint64 // last allocated object number
	Collections []*collection
}

// storedStorage selects how dense vectors are stored: the values of db.Storage.
type storedStorage uint8

const (
	storageAuto storedStorage = iota
	storageFloat32
)

// storedNumbering is the number of the first feature or coordinate in files: the values of
// db.Numbering.
type storedNumbering string

const (
	fromZero storedNumbering = "0"
	fromOne  storedNumbering = "1"
)

// first returns the number of the first feature.
func (n storedNumbering) first() uint32 {
	if n == fromOne {
		return 1
	}
	return 0
}

// check refuses a value that is no numbering.
func (n storedNumbering) check() error {
	if n != "" && n != fromZero && n != fromOne {
		return fmt.Errorf("%w: numbering %q, want %q, %q or none", fail.Option, n, fromZero, fromOne)
	}
	return nil
}

// collection is a collection's entry in the catalog. Rows below sealed() are stored in chunks,
// the others in the tail bucket.
type collection struct {
	ID     uint64
	Name   string
	Sparse bool `json:",omitempty"`
	Named  bool `json:",omitempty"` // features have names
	// Numbering is the number of the first feature or coordinate in imported and exported
	// files.
	Numbering storedNumbering `json:",omitempty"`
	Dim       int             // coordinates, or feature numbers in use
	Metric    vector.Metric
	Storage   storedStorage
	Rows      uint32 // allocated row numbers
	Live      uint32 // rows that are not deleted
	// Revision counts the changes of labels and payloads of stored rows.
	Revision uint64 `json:",omitempty"`
	// Unindexed is set once the program has dropped an index that finds rows. Maintenance then
	// builds none.
	Unindexed bool `json:",omitempty"`
	Indexes   []indexRef
}

// indexRef names an index's current generation: the object that holds its manifest, and other
// objects that hold blocks of it, which maintenance reuses from earlier generations.
type indexRef struct {
	Name   string
	Object uint64
	Parts  []uint64 `json:",omitempty"`
	// Labels is set if the index learns from labels. Transactions that change labels then record
	// the rows under Object, in section relabelled-rows.
	Labels bool `json:",omitempty"`
}

// Objects returns all objects that hold blocks of the index.
func (r *indexRef) objects() []uint64 { return append([]uint64{r.Object}, r.Parts...) }

// format describes the stored form of the rows.
func (c *collection) format() rows.Format {
	return rows.Format{
		ID: c.ID, Sparse: c.Sparse, Dim: c.Dim, Norms: c.Metric == vector.Cosine, Bytes: c.Storage == storageAuto,
	}
}

// shift returns log2 of the number of rows of a chunk.
func (c *collection) shift() uint { return c.format().Shift() }

func (c *collection) chunks() uint32 { return c.Rows >> c.shift() }
func (c *collection) sealed() uint32 { return c.chunks() << c.shift() }

// index returns the reference of the named index, or nil.
func (c *collection) index(name string) *indexRef {
	for i := range c.Indexes {
		if c.Indexes[i].Name == name {
			return &c.Indexes[i]
		}
	}
	return nil
}

// about returns what kinds of index know of the collection.
func (c *collection) about() kind.Collection {
	return kind.Collection{
		Name: c.Name, Sparse: c.Sparse, Dim: c.Dim, Metric: c.Metric, Rows: c.Rows, Live: c.Live,
		Renamed: c.Named || c.Numbering.first() > 0,
	}
}

// indexNames returns the names of the indexes, ascending.
func (c *collection) indexNames() []string {
	var names []string
	for _, x := range c.Indexes {
		names = append(names, x.Name)
	}
	slices.Sort(names)
	return names
}

// find returns the named collection.
func (c *catalog) find(name string) (*collection, error) {
	for _, x := range c.Collections {
		if x.Name == name {
			return x, nil
		}
	}
	return nil, fmt.Errorf("%w: %q", fail.NoCollection, name)
}

// take allocates n consecutive object numbers and returns the first.
func (c *catalog) take(n int) uint64 {
	c.Object += uint64(n)
	return c.Object - uint64(n) + 1
}

// byID returns the collection with the given number, or nil.
func (c *catalog) byID(id uint64) *collection {
	for _, x := range c.Collections {
		if x.ID == id {
			return x
		}
	}
	return nil
}

// validate refuses a catalog that this program cannot have written.
func (c *catalog) validate() error {
	if c.Object >= maxObject {
		return fail.Corruptf("", "catalog: %d objects", c.Object)
	}
	objects, names := map[uint64]bool{}, map[string]bool{}
	claim := func(id uint64) bool {
		ok := id > 0 && id <= c.Object && !objects[id]
		objects[id] = true
		return ok
	}
	for _, x := range c.Collections {
		if x == nil || checkName(x.Name) != nil || names[x.Name] || !claim(x.ID) {
			return fail.Corruptf("", "catalog: bad collection entry")
		}
		names[x.Name] = true
		dims := x.Dim >= 1 && x.Dim <= largestDim
		if x.Sparse {
			dims = x.Dim >= 0 && x.Dim <= largestFeature+1 && x.Metric == vector.Cosine
		}
		if !dims || x.Metric < vector.L2 || x.Metric > vector.InnerProduct ||
			x.Storage > storageFloat32 || x.Live > x.Rows || x.Revision >= maxObject || x.Named && !x.Sparse ||
			x.Numbering.check() != nil {
			return fail.Corruptf(x.Name, "catalog: impossible values")
		}
		indexes := map[string]bool{}
		for _, r := range x.Indexes {
			if checkName(r.Name) != nil || indexes[r.Name] {
				return fail.Corruptf(x.Name, "catalog: bad index entry")
			}
			indexes[r.Name] = true
			for _, object := range r.objects() {
				if !claim(object) {
					return fail.Corruptf(x.Name, "catalog: bad index entry")
				}
			}
		}
	}
	return nil
}

// checkName checks the name of a collection or an index.
func checkName(name string) error {
	if name == "" || len(name) > longestName || !utf8.ValidString(name) {
		return fmt.Errorf("%w: %q (want 1 to %d bytes of UTF-8)", fail.Name, name, longestName)
	}
	if strings.ContainsFunc(name, control) {
		return fmt.Errorf("%w: %q has control characters", fail.Name, name)
	}
	return nil
}

// control reports whether a character is not allowed in a name, because it controls a terminal,
// ends the line, or changes the direction of the text after it.
func control(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

var catalogKey = codec.Key(0, codec.KindCatalog, 0)

// getCatalog reads the catalog of a transaction.
func getCatalog(tx *bbolt.Tx) (*catalog, error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return nil, fmt.Errorf("%w: no bucket %q", fail.ErrNotDatabase, bucketMeta)
	}
	value := meta.Get(catalogKey[:])
	if value == nil {
		return nil, fmt.Errorf("%w: no catalog", fail.ErrNotDatabase)
	}
	payload, err := decodeBlock("", catalogKey[:], value, true)
	if err != nil {
		return nil, fail.Wrapf(err, "catalog")
	}
	return decodeCatalog(payload)
}

// decodeCatalog decodes and validates a catalog. It checks the format number first, because a
// later version may have changed everything else.
func decodeCatalog(payload []byte) (*catalog, error) {
	if err := checkShape(payload); err != nil {
		return nil, fail.Corruptf("", "catalog: %w", err)
	}
	var version struct{ Format int }
	if err := json.Unmarshal(payload, &version); err != nil {
		return nil, fail.Corruptf("", "catalog: %v", err)
	}
	if version.Format > catalogFormat {
		return nil, fmt.Errorf("%w: catalog format %d, this program reads %d", fail.NewerFormat,
			version.Format, catalogFormat)
	}
	var c catalog
	if err := json.Unmarshal(payload, &c); err != nil {
		return nil, fail.Corruptf("", "catalog: %v", err)
	}
	return &c, c.validate()
}

// putCatalog writes the catalog in a transaction.
func putCatalog(tx *bbolt.Tx, c *catalog) error {
	value, err := encodeCatalog(c)
	if err != nil {
		return err
	}
	return tx.Bucket(bucketMeta).Put(catalogKey[:], value)
}

// encodeCatalog returns the catalog's stored form.
func encodeCatalog(c *catalog) ([]byte, error) {
	c.Format = catalogFormat
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("db: encode catalog: %w", err)
	}
	if err := checkShape(b); err != nil || len(b) > maxCatalog {
		return nil, fmt.Errorf(
			"%w: %d collections need a catalog of %d bytes, want at most %d: drop collections or indexes",
			fail.Full, len(c.Collections), len(b), maxCatalog)
	}
	return codec.Encode(catalogKey[:], codec.Header{Kind: codec.KindCatalog}, b), nil
}

// markKey returns the key of the mark of an object that awaits removal or is not published yet.
func markKey(object uint64) [codec.KeySize]byte { return codec.Key(object, codec.KindGeneric, 0) }

// putMark records that an object's blocks are garbage, unless the transaction that publishes
// the object removes the mark.
func putMark(tx *bbolt.Tx, object uint64) error {
	k := markKey(object)
	return tx.Bucket(bucketMeta).Put(k[:],
		codec.Encode(k[:], codec.Header{Kind: codec.KindGeneric}, nil))
}

func deleteMark(tx *bbolt.Tx, object uint64) error {
	k := markKey(object)
	return tx.Bucket(bucketMeta).Delete(k[:])
}

// orphanMarks lists the marked objects.
func orphanMarks(tx *bbolt.Tx) []uint64 {
	var ids []uint64
	c := tx.Bucket(bucketMeta).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		object, kind, _ := codec.ParseKey(k)
		if object == 0 || kind != codec.KindGeneric {
			continue
		}
		// A damaged key must not cause the removal of a live object.
		if _, err := decodeBlock("", k, v, true); err == nil {
			ids = append(ids, object)
		}
	}
	return ids
}
