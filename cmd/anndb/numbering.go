package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
)

// target is the collection that a file of numbered features is read for, which
// decides what their numbers mean.
type target struct {
	ctx  context.Context
	info *db.CollectionInfo // nil if an import is to make the collection
	note func(format string, args ...any)
	in   io.Reader // standard input
}

// targetOf is a file read for a collection.
func targetOf(a *app, info db.CollectionInfo) target {
	return target{ctx: a.ctx, info: &info, note: a.note, in: a.program.in}
}

// kind is what the collection takes.
func (n target) kind() dataset.Kind {
	switch {
	case n.info == nil:
		return dataset.AnyKind
	case n.info.Sparse:
		return dataset.Sparse
	}
	return dataset.Dense
}

// existing is the description of a collection that an import adds to; nil if
// there is none yet.
func existing(a *app, path, name string) (*db.CollectionInfo, error) {
	if st, err := os.Stat(path); err != nil || st.Size() == 0 {
		return nil, nil // opening it for writing returns the error, if there is one
	}
	var info *db.CollectionInfo
	err := inFile{path}.withSnapshot(a, func(s *db.Snapshot) error {
		found, err := s.Collection(name).Info()
		if err == nil {
			info = &found
		}
		return err
	})
	if errors.Is(err, db.ErrNotFound) {
		err = nil
	}
	return info, err
}

// base is the base of a libsvm file, as --base says it or the collection does.
func (n target) base(flag string) (dataset.Base, error) {
	base := map[string]dataset.Base{"auto": dataset.BaseAuto, "0": dataset.BaseZero, "1": dataset.BaseOne}
	if n.info == nil || n.info.Numbering == "" {
		return base[flag], nil
	}
	if flag != "auto" && flag != n.info.Numbering {
		return 0, usagef("--base %s: collection %q counts features from %s", flag, n.info.Name, n.info.Numbering)
	}
	return base[n.info.Numbering], nil
}

// first is the number of a file's first feature.
func first(b dataset.Base) uint32 {
	if b == dataset.BaseOne {
		return 1
	}
	return 0
}

// check refuses a file whose numbers could mean two things, and says where the
// numbers of the file are not those of the collection.
func (n target) check(in *input, flag string) error {
	libsvm := in.Format == dataset.FormatLibsvm
	switch {
	case !libsvm && flag != "auto":
		return usagef("--base is for libsvm files; %s is of format %s", in.path, in.Format)
	case n.info == nil, n.info.Named && in.FeatureNames == nil: // the latter is refused later
	case libsvm && n.info.Numbering == "" && flag == "auto":
		return usagef("collection %q does not record from which number its features count: "+
			"say --base 0 or --base 1 for %s",
			n.info.Name, in.path)
	case in.countsFromZero() && !n.info.Named && n.info.Numbering == fromOne:
		n.note("%s counts features from 0, as %s does: its feature 0 is feature 1 of collection %q",
			in.path, in.Format, n.info.Name)
	}
	return nil
}

// explain adds the collection to the error of a feature 0 that it has no place for.
func (n target) explain(err error) error {
	fromOne := n.info != nil && n.info.Numbering == fromOne
	if !fromOne || !errors.Is(err, dataset.ErrFeatureZero) {
		return err
	}
	return fmt.Errorf("%w in collection %q, by its first import: "+
		"a file that counts from 0 needs a collection of its own (import --base 0)",
		err, n.info.Name)
}

// countsFromZero reports whether the file writes feature numbers and its format
// has them count from 0.
func (in *input) countsFromZero() bool {
	switch in.Format {
	case dataset.FormatXMC, dataset.FormatHDF5:
		return true
	}
	return in.Format == dataset.FormatJSONL && !in.namesItself()
}

// numbering is what a collection records of the file it is made from. Names given
// by the file itself need no numbers.
func (in *input) numbering(named bool) string {
	switch {
	case in.Base == dataset.BaseOne:
		return fromOne
	case named && (in.Format == dataset.FormatARFF || in.Format == dataset.FormatJSONL):
		return ""
	}
	return fromZero
}
