// Package layout has the stored form of a database apart from rows and indexes: the buckets of the
// file, the catalog, sets of rows, changes of rows, manifests and names of features, and the bounds
// of their sizes.
package layout

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// catalogFormat is the version of the file format: of the catalog's JSON and of everything it
// refers to.
const catalogFormat = 1

// Catalog is the root of the stored data: it names the collections, their counters and their
// indexes. It is one small block that every commit rewrites.
type Catalog struct {
	Format      int
	Object      uint64 // last allocated object number
	Collections []*Collection
}

// Storage selects how dense vectors are stored.
type Storage uint8

// The storage modes: as bytes where that is lossless, or always as float32.
const (
	StorageAuto Storage = iota
	StorageFloat32
)

// Numbering is the number of the first feature or coordinate in files: the values of
// db.Numbering.
type Numbering string

const (
	fromZero Numbering = "0"
	fromOne  Numbering = "1"
)

// First returns the number of the first feature.
func (n Numbering) First() uint32 {
	if n == fromOne {
		return 1
	}
	return 0
}

// Check refuses a value that is no numbering.
func (n Numbering) Check() error {
	if n != "" && n != fromZero && n != fromOne {
		return fmt.Errorf("%w: numbering %q, want %q, %q or none", fail.Option, n, fromZero, fromOne)
	}
	return nil
}

// Collection is a collection's entry in the catalog. Rows below Sealed are stored in chunks,
// the others in the tail bucket.
type Collection struct {
	ID     uint64
	Name   string
	Sparse bool `json:",omitempty"`
	Named  bool `json:",omitempty"` // features have names
	// Text is set if the features are the terms of texts, with their counts as values.
	Text *text.Schema `json:",omitempty"`
	// Weight is that of the vector in searches by both parts, 0 for the default.
	Weight float64 `json:",omitempty"`
	// Numbering is the number of the first feature or coordinate in imported and exported
	// files.
	Numbering Numbering `json:",omitempty"`
	Dim       int       // coordinates, 0 if the rows have no vectors
	Features  int       `json:",omitempty"` // feature numbers in use
	Metric    vector.Metric
	Storage   Storage
	Rows      uint32 // allocated row numbers
	Live      uint32 // rows that are not deleted
	// Revision counts the changes of labels, attributes, expiry and payloads of stored rows.
	Revision uint64 `json:",omitempty"`
	// Unindexed is set once the program has dropped an index that finds rows. Maintenance then
	// builds none.
	Unindexed bool `json:",omitempty"`
	Indexes   []IndexRef
	// Meta are the names and values that the program gave, such as the model that made the vectors.
	Meta map[string]string `json:",omitempty"`
	// Attributes are those that rows have had.
	Attributes []AttributeRef `json:",omitempty"`
}

// CheckText refuses texts that no collection can be created with.
func CheckText(t *text.Schema) error {
	switch {
	case CheckName(t.Analyzer) != nil:
		return fmt.Errorf("%w: analyzer %q", fail.Option, t.Analyzer)
	case t.Pairs < 0 || t.Pairs > 1<<31-1:
		return fmt.Errorf("%w: pairs of words that %d rows have, want 0 (no pairs) or more", fail.Option, t.Pairs)
	case !(t.K1 >= 0 && t.K1 <= maxK1 && t.B >= 0 && t.B <= 1):
		return fmt.Errorf("%w: k1 %g and b %g of BM25, want 0 to %g and 0 to 1", fail.Option, t.K1, t.B, maxK1)
	}
	return nil
}

// CheckWeight refuses what is no weight of the vector in a search by both parts.
func CheckWeight(w float64) error {
	if !(w >= 0 && w < 1) {
		return fmt.Errorf("%w: weight %g of the vector, want 0 (the default) to less than 1", fail.Option, w)
	}
	return nil
}

// CheckMeta refuses names and values that no collection can have.
func CheckMeta(m map[string]string) error {
	if len(m) > maxMeta {
		return fmt.Errorf("%w: %d names with values, want at most %d", fail.Option, len(m), maxMeta)
	}
	for name, value := range m {
		switch {
		case CheckName(name) != nil:
			return fmt.Errorf("%w: name %.40q of a value: %w", fail.Option, name, fail.Inner{Err: CheckName(name)})
		case len(value) > maxMetaValue || !utf8.ValidString(value) || strings.ContainsFunc(value, control):
			return fmt.Errorf("%w: %s=%.40q, want at most %d bytes of UTF-8 without control characters", fail.Option,
				name, value, maxMetaValue)
		}
	}
	return nil
}

// The bounds of what a program says of a collection.
const (
	maxMeta      = 64
	maxMetaValue = 1024
)

// maxK1 bounds k1 of BM25: from there on, counts add up.
const maxK1 = 1000.0

// AttributeRef names an attribute, the type of its values, and the object that has its tables. The
// expiry has no name.
type AttributeRef struct {
	Name   string
	Type   attribute.Type
	Object uint64
}

// MaxAttributes is the largest number of attributes that the rows of a collection have in all.
const MaxAttributes = 1024

// Attribute returns the reference of the named attribute, or nil.
func (c *Collection) Attribute(name string) *AttributeRef {
	for i := range c.Attributes {
		if c.Attributes[i].Name == name {
			return &c.Attributes[i]
		}
	}
	return nil
}

// Both reports whether rows have vectors and features, of which each may be missing.
func (c *Collection) Both() bool { return c.Dim > 0 && c.Sparse }

// Suits reports whether the rows have what a kind of index learns from, and ByFeatures whether that are the
// features: of rows with both parts they are, for a kind that suits either.
func (c *Collection) Suits(k kind.Kind) bool {
	return c.ByFeatures(k) || c.Dim > 0 && k.Traits().Suits(false)
}

func (c *Collection) ByFeatures(k kind.Kind) bool { return c.Sparse && k.Traits().Suits(true) }

// Objects returns all objects of the collection but those of its labels.
func (c *Collection) Objects() []uint64 {
	out := []uint64{c.ID}
	for _, x := range c.Attributes {
		out = append(out, x.Object)
	}
	for i := range c.Indexes {
		out = append(out, c.Indexes[i].Objects()...)
	}
	return out
}

// IndexRef names an index's current generation: the object that holds its manifest, and other
// objects that hold blocks of it, which maintenance reuses from earlier generations.
type IndexRef struct {
	Name   string
	Object uint64
	Parts  []uint64 `json:",omitempty"`
	// Labels is set if the index learns from labels. Transactions that change labels then record
	// the rows under Object, in section relabelled-rows.
	Labels bool `json:",omitempty"`
	// Features is set if the index finds rows by their features.
	Features bool `json:",omitempty"`
}

// Objects returns all objects that hold blocks of the index.
func (r *IndexRef) Objects() []uint64 { return append([]uint64{r.Object}, r.Parts...) }

// RowFormat describes the stored form of the rows.
func (c *Collection) RowFormat() rows.Format {
	return rows.Format{
		ID: c.ID, Sparse: c.Sparse, Dim: c.Dim, Features: c.Features, Norms: c.Metric == vector.Cosine,
		Bytes: c.Storage == StorageAuto,
	}
}

// Shift returns log2 of the number of rows of a chunk.
func (c *Collection) Shift() uint { return c.RowFormat().Shift() }

// ChunkCount returns the number of chunks, and Sealed the number of rows in them.
func (c *Collection) ChunkCount() uint32 { return c.Rows >> c.Shift() }
func (c *Collection) Sealed() uint32     { return c.ChunkCount() << c.Shift() }

// Index returns the reference of the named index, or nil.
func (c *Collection) Index(name string) *IndexRef {
	for i := range c.Indexes {
		if c.Indexes[i].Name == name {
			return &c.Indexes[i]
		}
	}
	return nil
}

// Auto is the name of the index that background maintenance builds, AutoFeatures that of the second one of
// a collection with vectors and features.
const (
	Auto         = "auto"
	AutoFeatures = "auto-features"
)

// AutoName returns the name of the index of features, or of vectors, that maintenance builds.
func (c *Collection) AutoName(features bool) string {
	if features && c.Both() {
		return AutoFeatures
	}
	return Auto
}

// DefaultModel returns the name of the first label model, empty if there is none.
func (c *Collection) DefaultModel() string {
	for _, r := range c.Indexes {
		if r.Labels {
			return r.Name
		}
	}
	return ""
}

// DefaultIndex returns the name of the first index that finds rows by features, or by vectors, empty if
// there is none. One of maintenance counts only if there is no other.
func (c *Collection) DefaultIndex(features bool) string {
	auto := ""
	for _, r := range c.Indexes {
		switch {
		case r.Labels || r.Features != features:
		case r.Name != c.AutoName(features):
			return r.Name
		default:
			auto = r.Name
		}
	}
	return auto
}

// Describe returns what kinds of index know of the features or of the vectors of the collection.
func (c *Collection) Describe(features bool) kind.Collection {
	out := kind.Collection{
		Name: c.Name, Sparse: features, Dim: c.Dim, Metric: c.Metric, Rows: c.Rows, Live: c.Live,
		Indexes: c.IndexNames(),
	}
	if features {
		out.Dim, out.Metric, out.Vectors = c.Features, vector.Cosine, c.Dim
	}
	if features && c.Text != nil {
		out.BM25 = &postings.BM25{K1: c.Text.K1, B: c.Text.B}
	}
	return out
}

// IndexNames returns the names of the indexes, ascending.
func (c *Collection) IndexNames() []string {
	var names []string
	for _, x := range c.Indexes {
		names = append(names, x.Name)
	}
	slices.Sort(names)
	return names
}

// AttributeNames returns the names of the attributes that rows have had, ascending, without the
// expiry.
func (c *Collection) AttributeNames() (names []string) {
	for _, x := range c.Attributes {
		if x.Name != attribute.Expiry {
			names = append(names, x.Name)
		}
	}
	return names
}

// Find returns the named collection.
func (c *Catalog) Find(name string) (*Collection, error) {
	for _, x := range c.Collections {
		if x.Name == name {
			return x, nil
		}
	}
	var have []string
	for _, x := range c.Collections {
		have = append(have, x.Name)
	}
	return nil, fail.NoCollectionNamed(name, have)
}

// Allocate allocates n consecutive object numbers and returns the first.
func (c *Catalog) Allocate(n int) uint64 {
	c.Object += uint64(n)
	return c.Object - uint64(n) + 1
}

// ByID returns the collection with the given number, or nil.
func (c *Catalog) ByID(id uint64) *Collection {
	for _, x := range c.Collections {
		if x.ID == id {
			return x
		}
	}
	return nil
}

// validate refuses a catalog that this program cannot have written.
func (c *Catalog) validate() error {
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
		if x == nil || CheckName(x.Name) != nil || names[x.Name] || !claim(x.ID) {
			return fail.Corruptf("", "catalog: bad collection entry")
		}
		names[x.Name] = true
		dims := x.Dim >= 0 && x.Dim <= kind.MaxDim && x.Features >= 0 && x.Features <= kind.MaxFeature+1 &&
			(x.Dim > 0 || x.Sparse && x.Metric == vector.Cosine) && (x.Features == 0 || x.Sparse)
		if !dims || x.Metric < vector.L2 || x.Metric > vector.InnerProduct ||
			x.Storage > StorageFloat32 || x.Live > x.Rows || x.Revision >= maxObject || x.Named && !x.Sparse ||
			x.Numbering.Check() != nil || x.Text != nil && (!x.Named || CheckText(x.Text) != nil) ||
			CheckWeight(x.Weight) != nil || x.Weight > 0 && !x.Both() || CheckMeta(x.Meta) != nil {
			return fail.Corruptf(x.Name, "catalog: impossible values")
		}
		attributes := map[string]bool{}
		for _, r := range x.Attributes {
			if r.Name != attribute.Expiry && attribute.CheckName(r.Name) != nil || attributes[r.Name] ||
				len(x.Attributes) > MaxAttributes || !r.Type.Valid() ||
				r.Name == attribute.Expiry && r.Type != attribute.TimeType || !claim(r.Object) {
				return fail.Corruptf(x.Name, "catalog: bad attribute entry")
			}
			attributes[r.Name] = true
		}
		indexes := map[string]bool{}
		for _, r := range x.Indexes {
			if CheckName(r.Name) != nil || indexes[r.Name] {
				return fail.Corruptf(x.Name, "catalog: bad index entry")
			}
			indexes[r.Name] = true
			for _, object := range r.Objects() {
				if !claim(object) {
					return fail.Corruptf(x.Name, "catalog: bad index entry")
				}
			}
		}
	}
	return nil
}

// CheckName checks the name of a collection or an index.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName || !utf8.ValidString(name) {
		return fmt.Errorf("%w: %q (want 1 to %d bytes of UTF-8)", fail.Name, name, MaxName)
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

// CatalogKey is the key of the catalog.
var CatalogKey = codec.Key(0, codec.KindCatalog, 0)

// ReadCatalog reads the catalog of a transaction.
func ReadCatalog(tx *bbolt.Tx) (*Catalog, error) {
	meta := tx.Bucket(BucketMeta)
	if meta == nil {
		return nil, fmt.Errorf("%w: no bucket %q", fail.ErrNotDatabase, BucketMeta)
	}
	value := meta.Get(CatalogKey[:])
	if value == nil {
		return nil, fmt.Errorf("%w: no catalog", fail.ErrNotDatabase)
	}
	payload, err := DecodeBlock("", CatalogKey[:], value, true)
	if err != nil {
		return nil, fail.Wrapf(err, "catalog")
	}
	return DecodeCatalog(payload)
}

// DecodeCatalog decodes and validates a catalog. It checks the format number first, because a
// later version may have changed everything else.
func DecodeCatalog(payload []byte) (*Catalog, error) {
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
	var c Catalog
	if err := json.Unmarshal(payload, &c); err != nil {
		return nil, fail.Corruptf("", "catalog: %v", err)
	}
	return &c, c.validate()
}

// WriteCatalog writes the catalog in a transaction.
func WriteCatalog(tx *bbolt.Tx, c *Catalog) error {
	value, err := EncodeCatalog(c)
	if err != nil {
		return err
	}
	return tx.Bucket(BucketMeta).Put(CatalogKey[:], value)
}

// EncodeCatalog returns the catalog's stored form.
func EncodeCatalog(c *Catalog) ([]byte, error) {
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
	return codec.Encode(CatalogKey[:], codec.Header{Kind: codec.KindCatalog}, b), nil
}

// markKey returns the key of the mark of an object that awaits removal or is not published yet.
func markKey(object uint64) [codec.KeySize]byte { return codec.Key(object, codec.KindGeneric, 0) }

// PutMark records that an object's blocks are garbage, unless the transaction that publishes
// the object removes the mark.
func PutMark(tx *bbolt.Tx, object uint64) error {
	k := markKey(object)
	return tx.Bucket(BucketMeta).Put(k[:],
		codec.Encode(k[:], codec.Header{Kind: codec.KindGeneric}, nil))
}

// DeleteMark removes the mark of an object.
func DeleteMark(tx *bbolt.Tx, object uint64) error {
	k := markKey(object)
	return tx.Bucket(BucketMeta).Delete(k[:])
}

// OrphanMarks lists the marked objects.
func OrphanMarks(tx *bbolt.Tx) []uint64 {
	var ids []uint64
	c := tx.Bucket(BucketMeta).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		object, kind, _ := codec.ParseKey(k)
		if object == 0 || kind != codec.KindGeneric {
			continue
		}
		// A damaged key must not cause the removal of a live object.
		if _, err := DecodeBlock("", k, v, true); err == nil {
			ids = append(ids, object)
		}
	}
	return ids
}

// NoIndex returns the error for an index that the collection lacks.
func NoIndex(c *Collection, name string) error {
	return fail.NoIndexNamed(name, c.Name, c.IndexNames())
}
