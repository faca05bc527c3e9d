package input

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/dataset"
)

// FileFlags say how to read a file of records.
type FileFlags struct {
	As             string   `placeholder:"FORMAT"`
	Member         string   `placeholder:"NAME"`
	Dim            int      `default:"0" want:"0"`
	Key            string   `name:"key-column"`
	Vector         string   `name:"vector-column" placeholder:"NAME"`
	Text           string   `placeholder:"NAME"`
	Label          []string `name:"label-column"`
	Payload        string   `name:"payload-column"`
	Attribute      []string `placeholder:"NAME[:TYPE]"`
	Attributes     string   `name:"attributes-field" placeholder:"NAME"`
	Expiry         string   `name:"expiry-column" placeholder:"NAME"`
	Separator      string   `placeholder:"CHAR"`
	LabelSeparator string   `default:"|"`
	Ignore         []string `name:"ignore-column"`
	Header         string   `enum:"auto,yes,no" default:"auto"`
	Keys           string   `placeholder:"PATH" type:"path"`
	Limit          int64    `aliases:"limit-queries" default:"${limit}" want:"0"`
	SparseFlags    `embed:"" group:"Sparse files:"`
}

// SparseFlags say how to read a file of sparse records.
type SparseFlags struct {
	LabelsXML    string `placeholder:"PATH" type:"path"`
	NoLabels     bool
	LabelNames   string `placeholder:"PATH" type:"path"`
	FeatureNames string `placeholder:"PATH" type:"path"`
	Base         string `enum:"auto,0,1" default:"auto"`
	MaxFeatures  int    `default:"0" want:"0"`
	Field        string `name:"features-field"`
}

// Given reports whether a flag says that the file is sparse.
func (s SparseFlags) Given() bool { return s != SparseFlags{Base: "auto"} }

// options are the flags as package dataset takes them; --base is left out, for what it
// means depends on the collection.
func (f FileFlags) options() (dataset.Options, error) {
	o := dataset.Options{
		Format: f.As, Member: f.Member, Dim: f.Dim, KeyColumn: f.Key,
		LabelColumns: f.Label, LabelSeparator: f.LabelSeparator,
		PayloadColumn: f.Payload, IgnoreColumns: f.Ignore, KeysPath: f.Keys, Max: f.Limit,
		TextColumn: f.Text, VectorField: f.Vector, LabelsXML: f.LabelsXML, NoLabels: f.NoLabels,
		MaxFeatures: f.MaxFeatures, FeaturesField: f.Field,
		AttributesField: f.Attributes, ExpiryColumn: f.Expiry,
		Header: map[string]dataset.Header{
			"auto": dataset.HeaderAuto, "yes": dataset.HeaderPresent, "no": dataset.HeaderAbsent,
		}[f.Header],
	}
	switch {
	case f.Given() && f.Text != "":
		return o, command.Usagef("--text and the flags for sparse files exclude each other")
	case f.Given():
		o.Kind = dataset.Sparse
	}
	if f.Separator != "" {
		c, n := utf8.DecodeRuneInString(f.Separator)
		if f.Separator == `\t` {
			c, n = '\t', 2
		}
		if o.Separator = c; n < len(f.Separator) {
			return o, command.Usagef("--separator %q: want one character", f.Separator)
		}
	}
	for _, text := range f.Attribute {
		a, err := dataset.ParseAttribute(text)
		if err != nil {
			return o, fmt.Errorf("--attribute: %w", err)
		}
		o.Attributes = append(o.Attributes, a)
	}
	for _, list := range []struct {
		path string
		into *[]string
	}{{f.LabelNames, &o.LabelNames}, {f.FeatureNames, &o.FeatureNames}} {
		if list.path == "" {
			continue
		}
		var err error
		if *list.into, err = dataset.ReadNames(namesColumn(list.path)); err != nil {
			return o, err
		}
	}
	return o, nil
}

// namesColumn returns the path and the column of PATH:COLUMN, and column 0 for any other path.
func namesColumn(path string) (string, int) {
	i := strings.LastIndexByte(path, ':')
	if n, err := strconv.Atoi(path[i+1:]); i > 0 && err == nil && n > 0 && !command.Exists(path) {
		return path[:i], n
	}
	return path, 0
}
