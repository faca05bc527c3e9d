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
//	name   reads                                     writes            keeps
//	idx    u8 i8 i16 i32 f32 f64, two or more        -                 vectors
//	       dimensions; labels in another file
//	fvecs  f32                                       f32               vectors
//	bvecs  u8                                        -                 vectors
//	ivecs  i32                                       -                 vectors
//	fbin   f32                                       -                 vectors
//	u8bin  u8                                        -                 vectors
//	i8bin  i8                                        -                 vectors
//	ibin   i32                                       -                 vectors
//	npy    f2 f4 f8 i1..i8 u1..u8 b1, either byte    f4, version 1     vectors
//	       order, versions 1 to 3
//	npz    the same, one of several arrays (Member)  -                 vectors
//	hdf5   f2 f4 f8 i1..i8 u1..u8 bool, one of       -                 vectors
//	       several arrays (Member), as h5py
//	       writes them by default; sparse: sets of
//	       integers (train, size_train)
//	csv    header or none, RFC 4180 quotes           key,v0,v1,…,      everything
//	tsv    the same with tabs                        labels,payload,
//	                                                 attributes
//	parquet  a column of lists of numbers,           the same          everything
//	         others as in csv
//	words  a word and its numbers, perhaps after    -                 vectors, words
//	       a line "rows dimension"
//	jsonl  {"key","vector","labels","attributes",    the same          everything
//	       "expires","payload"}
//
// The records of these formats are dense: vectors. jsonl may hold sparse records as
// well, hdf5 sets of numbers, which are sparse records with the value 1, and csv, tsv, parquet and jsonl texts, see below.
//
// Every format but npz, hdf5 and parquet may be compressed: reading looks at the content for gzip, bzip2
// and zstd, writing at the name's ending for gzip. Arrays in Fortran order, npz and hdf5 are read
// at many places, so they need a plain file. Arrays with more than two
// dimensions, such as images, are read as one vector a record, the last dimension
// varying fastest.
//
// # Detection
//
// With no Options.Format the content decides where it can be no other format: the
// magic numbers of npy, npz, hdf5, parquet and idx; an opening brace with a quoted name for jsonl;
// @relation, @attribute or @data for ARFF; three whole numbers in the first line,
// and a feature in the second, for xmc. Then the name decides: .idx, -ubyte, .fvecs,
// .bvecs, .ivecs, .fbin, .u8bin, .i8bin, .ibin, .npy, .npz, .hdf5, .h5, .parquet, .csv, .tsv, .vec, .jsonl,
// .ndjson, .libsvm, .svm, .svmlight, .xmc, .arff, each with or without .gz, .bz2 or .zst. Text under
// another name is a list of word vectors (words) when its first line is a word and numbers separated by
// blanks, or two counts before such a line, ARFF when it begins with %, libsvm when its first line has
// the shape of a record with features, lines when its name ends in .txt and it has words and hardly any
// numbers, tsv when that has more tabs than commas, and csv otherwise. A folder is one of texts. The
// vecs and bin formats have no magic number, so they need their name or an explicit format.
// Options.Kind keeps to the formats of one kind.
//
// # Values
//
// Vectors come as float32 and are always finite: NaN and infinities, in text
// or in bits, are errors, and so are numbers beyond float32's range. float64
// and decimal text are rounded to the nearest float32. Whole numbers of binary
// formats must fit exactly, so that ids in an ivecs file never change in
// passing. The text writers use the shortest decimal that reads back as the
// same float32.
//
// # Keys
//
// Every record has a key. Files without keys give the record number from 0, in
// decimal. Keys are not compared with one another: a duplicate is for the
// storage to find. Empty keys are errors.
//
// # csv and tsv
//
// A column is named by its header, or else by its position from 1. Without
// options a column headed key or id has the key, label or labels the labels,
// payload the payload, expires the expiry (upper and lower case alike), and a column
// headed name:type is an attribute; all others are the vector, in file order, or one of them holds it as
// a list: numbers between brackets, or several numbers separated by spaces or commas; then the others are
// attributes. A label
// cell is split at Options.LabelSeparator, "|" by default; empty parts are no labels.
//
// Under HeaderAuto the first line is a header if one of its cells is one of
// the names above or a name given in the options, or is no number where the
// second line has one; a line without numbers is a header if it is the only one or has a
// name:type. A header
// made of numbers only, as data frames write, cannot be distinguished from a record:
// say HeaderPresent.
//
// A text whose format is detected must be UTF-8; with an explicit format keys, labels and payloads are
// bytes. A carriage return is an error but before a line feed and between quotes.
//
// Blank lines are skipped, spaces around numbers do not count, a UTF-8 byte
// order mark is dropped. A key or payload with a carriage return followed by a
// line feed is refused on writing, since csv readers turn the two into one.
//
// # Parquet
//
// The vector is the column Options.VectorField, or the only one that has lists of floats, or failing that
// lists of numbers, or else columns of numbers that are numbered (v0, v1, …). Columns for key, labels,
// payload and expiry are found as in csv files, and all others are attributes of the column's type, whose
// nulls are no attributes: decimals are the nearest floats, UUIDs strings. A column of another type, or of
// a group, is an error unless Options.IgnoreColumns names it. Written are the columns key, vector, labels,
// payload and expires, and one for each attribute of the Schema, with its type behind the name where the name
// is that of another column; texts must be UTF-8, and times are nanoseconds, of the years 1678 to 2261.
//
// # jsonl
//
// One object a line; blank lines are skipped. The key and each label may be a
// string or a number, "labels" an array or one label. A payload that is a
// string gives its text; any other value gives its JSON unchanged. Bytes that are not
// UTF-8 are written in base64 under "key_base64" and "payload_base64", which
// are read too. Either all records have a key or none. An unknown field is an
// error unless Options.IgnoreColumns names it. An object that has a field
// twice is an error.
//
// # Texts
//
// All is as in the same format with vectors:
//
//	name     a record                                    keys
//	csv      a row; the column of the text is            in a column
//	tsv      Options.TextColumn, or is named text in a
//	parquet  file without vectors; others are attributes
//	jsonl    {"key","text","labels","attributes",        in the record
//	         "expires","payload"}
//	lines    a line that is not blank                    -
//	folder   a file of the folder, or of one in it       paths in the folder
//
// A text can have a vector next to it, from Options.VectorsPath, a file with a vector for each record, or
// from its own record: the jsonl field, or the column of a list or of v0, v1, … (with Options.VectorField
// as the name in the place of v in csv files). One of the two can be missing in a record: null, no field,
// an empty cell. A csv or Parquet file whose vector is in one column has a text next to it if
// Options.TextColumn or Options.Kind says so; otherwise a column named text is an attribute.
//
// Texts must be UTF-8. A csv file of texts can as well have one column of any name, where Options.Kind is
// Text, and a text without a name that suggests a format is lines then. Hidden files of a folder are left
// out, and so is what is no regular file; Options.FolderLabels makes labels of the folders in it.
//
// # Attributes and expiry
//
// Records of csv, tsv and jsonl files may have attributes, which are named strings, integers
// (int64), floats (float64), bools and times, and an expiry. Times are dates (2026-01-02) or times
// (2026-01-02T03:04:05.006Z, 2026-01-02T03:04), in UTC if they have no offset.
//
// In csv files a column is an attribute if its header is name:type, with the type string, int,
// float, bool or time, or if Options.Attributes names it. An empty cell is no attribute. Without a type
// a cell is an integer or a float if it has the form of a decimal number without leading zeros or
// a plus sign (postal codes and telephone numbers keep theirs), else a bool, else a time, else a
// string. Columns of the same name and several types are one attribute; a record has a value in
// one of them. An empty string, and one with a carriage return and line feed, is refused on writing.
//
// In jsonl "attributes" is an object:
//
//	{"brand": "acme", "price": 30, "weight": 1.0, "sold": true, "seen": {"$time": "2026-01-02T03:04:05Z"}}
//
// Numbers without a fraction and an exponent are integers, others floats; null is no attribute. An
// infinity is {"$float": "+Inf"}. Arrays and other objects are errors. Options.Attributes names
// further fields that are attributes; there a string may be a time. "expires" is a time as a string.
//
// # Sparse records
//
// These formats hold features instead of vectors:
//
//	name    a record                                   names          keys
//	libsvm  label,label feature:value feature:value    -              -
//	xmc     the same, after a line "rows features      labels beside  beside
//	        labels"; everything numbered from 0; or
//	        after "rows features", with the labels in
//	        another file (Options.LabelsPath)
//	arff    a row, dense or {number value, …}; labels  both           beside
//	        by Mulan's XML file or Meka's "-C n"
//	jsonl   {"key","features","labels","attributes",   both           in the record
//	        "expires","payload"}
//
// The first record of a jsonl file decides whether it has vectors or features. libsvm and jsonl are written,
// xmc and arff only read.
//
// Features come by number from 0, ascending, without zeros. A repeated feature
// is an error, a repeated label counts once. libsvm files number features from
// 1, or from 0 if there is a feature 0 in the first 64 KiB; a later 0 is an error
// that asks for Options.Base. A test part without a 0 cannot be told, so
// give the files that come in parts the Base of the first one's reader. A label +1 is the label 1. The
// qid:1 of files for learning to rank is the attribute qid.
//
// In ARFF files attributes are numeric or nominal; a nominal attribute with
// numbers for values counts as numeric, any other becomes one feature for each
// value, "attribute=value". What a sparse row leaves out is, as in Weka, zero or
// the first value. Strings and dates can be labels or be left out; otherwise they and weights
// of rows are errors. A missing value (?) is left out: of a sparse row, of labels and of a nominal
// attribute that has a feature for each value; where a dense row needs a number it is an error,
// [ErrMissing]. Values are separated by commas, by blanks and tabs, or both; a row may end with a
// comma. Without Mulan's file and Meka's -C, the value of an attribute named class or label is the
// label, or else, as in Weka, that of the last attribute if it is nominal (Options.LabelColumns,
// NoLabels). The XML file decides over Meka's -C, which may be left over from a conversion.
//
// In jsonl "features" is {"name": value, …} or {"indices": […], "values": […]}, and the same kind, names
// or numbers, in all records. Names are numbered in order of appearance.
//
// Memory does not follow the number of
// records; it follows the names met, and a limit on feature numbers holds
// whatever a file says (Options.MaxFeatures).
//
// # Errors
//
// Whatever is wrong with a file's content is a *[FormatError], which wraps
// [ErrFormat] and names the path, the record from 0, and the line from 1 or
// the offset in the decompressed content. No length found in a file is
// believed: memory is bounded by Options.MaxDim (DefaultMaxDim) for vectors
// and by 16 MiB for a line of text, 1,024 labels, 65,536 features and 255 attributes for a record, whatever a
// header says; a count that
// differs from what follows is an error of Open where the file's size shows
// it, of Read otherwise. io.EOF comes only after the end of the file, and the
// gzip checksum, have been checked.
//
// # Writing
//
// [Create] writes a new file in the folder and renames it on Close, so a half-written file
// never has the final name. npy has the count in its header: it is put in place on Close,
// under gzip too.
package dataset
