// Package dataset reads and writes files of vectors, dense and sparse, and of texts, with
// their keys, labels, attributes and payloads. It knows files, not storage, and depends on
// nothing else of this module but the sparse types of package vector.
//
//	r, err := dataset.Open("train-images-idx3-ubyte.gz", dataset.Options{
//		LabelsPath: "train-labels-idx1-ubyte.gz",
//	})
//	if err != nil { ... }
//	defer r.Close()
//	for rec, err := range dataset.All(r) {
//		if err != nil { return err } // names the file, the record and the line or offset
//		use(rec.Key, rec.Vector, rec.Labels)
//	}
//
// # Formats
//
//	name     reads                                             writes   keeps
//	idx      u8 i8 i16 i32 f32 f64, two or more dimensions     -        vectors
//	fvecs    f32; bvecs u8; ivecs i32                          fvecs    vectors
//	fbin     f32; u8bin u8; i8bin i8; ibin i32                 -        vectors
//	f32      float32 without a header (Dim)                    -        vectors
//	npy      f2 f4 f8 i1..i8 u1..u8 b1, either byte order      f4       vectors
//	npz      the same, one of several arrays (Member)          -        vectors
//	safetensors  the same and BF16, one of several (Member)    -        vectors
//	faiss    flat and IVF-flat indexes, whose ids are keys     -        vectors, keys
//	chromem  exports of chromem-go, one collection (Member)    -        everything
//	hdf5     the same as h5py writes them by default, sets     -        vectors, sets
//	         of integers (train, size_train)
//	parquet  columns of numbers, lists of them, and texts      columns  everything
//	csv, tsv header or none, RFC 4180 quotes                   the same everything
//	words    a word and its numbers, perhaps after a line      -        vectors, words
//	         "rows dimension"
//	jsonl    {"key","vector" or "features" or "text","labels", the same everything
//	         "attributes","expires","payload"}
//	libsvm   label,label feature:value feature:value           the same features, labels
//	xmc      the same numbered from 0, after a line            -        features, labels
//	         "rows features labels"
//	arff     a row, dense or {number value, …}                 -        features, labels
//	lines    a text a line that is not blank                   -        texts
//	folder   a text a file, also in folders in it              -        texts, paths
//
// Arrays with more than two dimensions, such as images, are read as one vector a record, the last
// dimension varying fastest. All files may be compressed by gzip, bzip2 or zstd, but npz, safetensors,
// faiss, hdf5, parquet and arrays of NumPy in column order, which are read at many places; written files are
// compressed by gzip if their name ends in .gz.
//
// With no Options.Format the content decides where it can be no other format, then the name, then what
// the text looks like. The vecs and bin formats have no magic number: they need their name or a format.
//
// # Values and keys
//
// Vectors come as float32 and are always finite: NaN, infinities and numbers beyond float32's range are
// errors. float64 and decimal text are rounded to the nearest float32; whole numbers of binary formats must
// fit exactly, so that ids in an ivecs file never change. The text writers use the shortest decimal
// that reads back as the same float32.
//
// Every record has a key: files without keys give the record number from 0, in decimal. Keys are not
// compared with one another. Empty keys are errors.
//
// # csv, tsv and parquet
//
// A column is named by its header, or else by its position from 1. Without options a column headed key or
// id has the key, label or labels the labels, payload the payload, expires the expiry (upper and lower case
// alike), and a column headed name:type, with the type string, int, float, bool or time, is an attribute.
// All others are the vector, in file order, or one of them holds it as a list: numbers between brackets,
// or several numbers separated by spaces or commas; then the others are attributes.
//
// Under HeaderAuto the first line is a header if one of its cells is one of the names above or a name given
// in the options, or is no number where the second line has one; a line without numbers is a header if
// it is the only one or has a name:type. A header made of numbers only needs HeaderPresent.
//
// An empty cell is no attribute. Without a type a cell is an integer or a float if it has the form of a
// decimal number without leading zeros or a plus sign (postal codes keep theirs), else a bool,
// else a time, else a string. Columns of the same name and several types are one attribute.
//
// A detected text must be UTF-8; with an explicit format keys, labels and payloads are bytes. A carriage
// return is an error but before a line feed and between quotes; both together are refused on writing,
// since csv readers turn the two into one.
//
// In parquet files the vector is the column Options.VectorField, or the only one that has lists of floats,
// or failing that lists of numbers, or else columns of numbers that are numbered (v0, v1, …). All other
// columns are attributes of the column's type, whose nulls are no attributes: decimals are the nearest
// floats, UUIDs strings. A column of another type is an error unless Options.IgnoreColumns names it.
//
// # jsonl
//
// One object a line; blank lines are skipped. The key and each label may be a string or a number, "labels"
// an array or one label. A payload that is a string gives its text; any other value gives its JSON
// unchanged. Bytes that are not UTF-8 are in base64 under "key_base64" and "payload_base64". Either all
// records have a key or none. An unknown field is an error unless Options.IgnoreColumns names it.
//
//	"vector": [1, 2.5, …] or {"base64": "float32 in little-endian order"}
//	"features": {"goal": 2, …} or {"indices": [3, …], "values": [2, …]}, the same in all records
//	"attributes": {"brand": "acme", "price": 30, "weight": 1.0, "seen": {"$time": "2026-01-02T03:04:05Z"}}
//
// Numbers without a fraction and an exponent are integers, others floats; null is no attribute, an infinity
// is {"$float": "+Inf"}, arrays and other objects are their JSON. Named features are numbered in order of
// appearance. The first record decides what the file has.
//
// # Texts
//
// Texts are in a column or field (Options.TextColumn), in lines or in files, and must be UTF-8. A text can
// have a vector next to it, from Options.VectorsPath or from its own record; one of the two can be missing:
// null, no field, an empty cell. A csv or parquet file whose vector is in one column has texts
// if Options.TextColumn or Options.Kind says so; otherwise a column named text is an attribute.
//
// # Sparse records
//
// Features come by number from 0, ascending, without zeros. A repeated feature is an error, a repeated label
// counts once. libsvm files number features from 1, or from 0 if there is a feature 0 in the first 64 KiB
// (Options.Base); a label +1 is the label 1, and qid:1 is the attribute qid. Memory follows the names met,
// not the number of records.
//
// In ARFF files a nominal attribute with numbers for values counts as numeric, any other becomes one
// feature for each value, "attribute=value". What a sparse row leaves out is, as in Weka, zero or the first
// value. Strings and dates can be labels or be left out. A missing value (?) is left out of a sparse row,
// of labels and of a nominal attribute that has a feature for each value; where a dense row needs
// a number it is an error, [ErrMissing]. Options.LabelsXML lists the attributes that are labels.
//
// # Errors
//
// Whatever is wrong with a file's content is a *[FormatError], which wraps [ErrFormat] and names the path,
// the record from 0, and the line from 1 or the offset in the decompressed content. No length found in a
// file is believed: memory is bounded by Options.MaxDim for vectors and by 16 MiB for a line of text,
// 1,024 labels, 65,536 features and 255 attributes for a record, whatever a header says. A count that
// differs from what follows is an error of Open where the file's size shows it, of Read otherwise. io.EOF
// comes only after the end of the file, and the gzip checksum, have been checked.
package dataset
