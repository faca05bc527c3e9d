package dataset

import (
	"path/filepath"
	"slices"
	"strings"
)

// Names of the formats, as taken by [Options] and [Schema].
const (
	FormatIDX     = "idx"         // the format of MNIST: big-endian, typed, any number of dimensions; read only
	FormatFvecs   = "fvecs"       // int32 dimension, then that many float32, little-endian, per record
	FormatBvecs   = "bvecs"       // int32 dimension, then that many uint8, per record; read only
	FormatIvecs   = "ivecs"       // int32 dimension, then that many int32, little-endian, per record; read only
	FormatFbin    = "fbin"        // uint32 records, uint32 dimension, then all float32, little-endian; read only
	FormatU8bin   = "u8bin"       // the same with uint8; read only
	FormatI8bin   = "i8bin"       // the same with int8; read only
	FormatIbin    = "ibin"        // the same with int32; read only
	FormatNPY     = "npy"         // NumPy array file, versions 1 to 3
	FormatNPZ     = "npz"         // NumPy archive: a zip file of npy files; read only
	FormatF32     = "f32"         // float32, little-endian, without a header (Options.Dim); read only
	FormatTensors = "safetensors" // safetensors file of arrays; read only
	FormatFAISS   = "faiss"       // flat or IVF-flat index of FAISS; read only
	FormatChromem = "chromem"     // what ExportToFile of chromem-go writes; read only
	FormatHDF5    = "hdf5"        // HDF5 file of arrays, as h5py and ann-benchmarks have it; read only
	FormatParquet = "parquet"     // Parquet file with a column of lists of numbers
	FormatLines   = "lines"       // a text a line; read only
	FormatFolder  = "folder"      // a folder of files, each a text; read only
	FormatCSV     = "csv"         // comma-separated text
	FormatTSV     = "tsv"         // tab-separated text, quoted like csv
	FormatWords   = "words"       // a word and its numbers a line, as of GloVe and word2vec; read only
	FormatJSONL   = "jsonl"       // one JSON object a line
	FormatLibsvm  = "libsvm"      // "label,label feature:value feature:value" a line
	FormatXMC     = "xmc"         // the same, numbered from 0, after a line "rows features labels"; read only
	FormatARFF    = "arff"        // Weka's attribute files in the conventions of Mulan and Meka; read only
)

// format is all that the package knows of a format.
type format struct {
	name          string
	dense, sparse bool // kinds of records that it holds
	texts         bool
	text          bool // is a text itself
	plain         bool // holds nothing but vectors
	attributes    bool // holds attributes and expiries
	members       bool // holds several arrays
	firstTells    bool // the first record decides what the others must be
	seek          bool // is read at many places of the file
	endings       []string
	open          func(s *source, o Options) (decoder, error)
	encoder       func(s Schema) (encoder, error) // nil: the format is only read
}

// formats lists the formats, those of dense records first. It is filled in by init
// since decoders ask for it.
var formats []*format

func init() {
	formats = append(formats, &format{
		name: FormatFvecs, dense: true, plain: true, endings: []string{".fvecs"},
		open: openVecs, encoder: newFvecsEncoder,
	})
	for _, name := range []string{FormatBvecs, FormatIvecs} {
		formats = append(formats, &format{
			name: name, dense: true, plain: true, endings: []string{"." + name}, open: openVecs,
		})
	}
	for _, name := range []string{FormatFbin, FormatU8bin, FormatI8bin, FormatIbin} {
		formats = append(formats, &format{
			name: name, dense: true, plain: true, endings: []string{"." + name}, open: openBin,
		})
	}
	formats = append(formats, []*format{
		{name: FormatIDX, dense: true, plain: true, endings: []string{".idx", "-ubyte"}, open: openIDX},
		{
			name: FormatNPY, dense: true, plain: true, endings: []string{".npy"},
			open: openNPY, encoder: newNPYEncoder,
		},
		{
			name: FormatNPZ, dense: true, plain: true, members: true, seek: true, endings: []string{".npz"},
			open: openNPZ,
		},
		{name: FormatF32, dense: true, plain: true, endings: []string{".f32"}, open: openRaw},
		{
			name: FormatTensors, dense: true, plain: true, members: true, seek: true,
			endings: []string{".safetensors"}, open: openSafetensors,
		},
		{name: FormatFAISS, dense: true, plain: true, seek: true, endings: []string{".faiss"}, open: openFAISS},
		{
			name: FormatHDF5, dense: true, sparse: true, plain: true, members: true, seek: true,
			endings: []string{".hdf5", ".h5", ".hdf"}, open: openHDF5,
		},
		{
			name: FormatChromem, dense: true, texts: true, attributes: true, members: true, firstTells: true,
			endings: []string{".gob", ".gob.enc", ".gob.gz.enc"}, open: openChromem,
		},
		{
			name: FormatParquet, dense: true, texts: true, attributes: true, seek: true, firstTells: true,
			endings: []string{".parquet", ".pq"}, open: openParquet, encoder: newParquetEncoder,
		},
		{
			name: FormatCSV, dense: true, texts: true, text: true, attributes: true, endings: []string{".csv"},
			open: openDelimited, encoder: newDelimitedEncoder,
		},
		{
			name: FormatTSV, dense: true, texts: true, text: true, attributes: true, endings: []string{".tsv"},
			open: openDelimited, encoder: newDelimitedEncoder,
		},
		{
			name: FormatWords, dense: true, text: true, firstTells: true, endings: []string{".vec"}, open: openWords,
		},
		{
			name: FormatLibsvm, sparse: true, text: true,
			endings: []string{".libsvm", ".svm", ".svmlight"}, open: openLibsvm, encoder: newLibsvmEncoder,
		},
		{name: FormatXMC, sparse: true, text: true, endings: []string{".xmc"}, open: openXMC},
		{name: FormatARFF, sparse: true, text: true, endings: []string{".arff"}, open: openARFF},
		{
			name: FormatJSONL, dense: true, sparse: true, texts: true, text: true, attributes: true,
			firstTells: true, endings: []string{".jsonl", ".ndjson"}, open: openJSONL, encoder: newJSONLEncoder,
		},
		{name: FormatLines, texts: true, text: true, open: openTextLines},
		{name: FormatFolder, texts: true, open: openFolder},
	}...)
}

// holds reports whether files of the format can hold records of a kind.
func (f *format) holds(k Kind) bool {
	return k == AnyKind || k == Dense && f.dense || k == Sparse && f.sparse || k == Text && f.texts
}

// formatNamed returns nil for an unknown name.
func formatNamed(name string) *format {
	for _, f := range formats {
		if f.name == name {
			return f
		}
	}
	return nil
}

// Formats returns the names of the formats that are read and hold records of a kind.
func Formats(k Kind) []string {
	var names []string
	for _, f := range formats {
		if f.holds(k) {
			names = append(names, f.name)
		}
	}
	return names
}

// WritableFormats returns the names of the formats in which records of a kind are written.
func WritableFormats(k Kind) []string {
	return slices.DeleteFunc(Formats(k), func(name string) bool { return formatNamed(name).encoder == nil })
}

// VectorsOnly reports whether files of the format hold nothing but vectors, so
// that writing one drops keys, labels and payloads.
func VectorsOnly(name string) bool {
	f := formatNamed(name)
	return f == nil || f.plain
}

// HasAttributes reports whether files of the format hold attributes and expiries; writing
// another one drops them.
func HasAttributes(name string) bool {
	f := formatNamed(name)
	return f != nil && f.attributes
}

// FormatOf returns the format that a file name suggests for records of a kind, ""
// when it suggests none. A final .gz, .bz2 or .zst is ignored. Sparse records in a file
// named .txt are taken for xmc, as the extreme classification repository has it, and texts for lines.
func FormatOf(path string, k Kind) string {
	name := strings.ToLower(filepath.Base(path))
	name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".bz2"), ".zst")
	for _, f := range formats {
		if f.holds(k) && slices.ContainsFunc(f.endings, func(e string) bool { return strings.HasSuffix(name, e) }) {
			return f.name
		}
	}
	switch {
	case !strings.HasSuffix(name, ".txt"):
	case k == Sparse:
		return FormatXMC
	case k == Text:
		return FormatLines
	}
	return ""
}
