package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
)

// Target is the collection that a file of numbered features is read for, which
// decides what their numbers mean.
type Target struct {
	ctx  context.Context
	info *db.CollectionInfo // nil if an import is to make the collection
	note func(format string, args ...any)
	in   io.Reader // standard input
}

// TargetOf is a file read for a collection; info is nil if an import is to make it.
func TargetOf(a *command.App, info *db.CollectionInfo) Target {
	return Target{ctx: a.Ctx, info: info, note: a.Note, in: a.Program.In}
}

// kind is what the collection takes.
func (n Target) kind() dataset.Kind {
	switch {
	case n.info == nil:
		return dataset.AnyKind
	case n.info.Text != nil:
		return dataset.Text
	case n.info.Sparse:
		return dataset.Sparse
	}
	return dataset.Dense
}

// Existing is the description of a collection that an import adds to; nil if
// there is none yet.
func Existing(a *command.App, path, name string) (*db.CollectionInfo, error) {
	if st, err := os.Stat(path); err != nil || st.Size() == 0 {
		return nil, nil // opening it for writing returns the error, if there is one
	}
	var info *db.CollectionInfo
	err := command.InFile{File: path}.WithSnapshot(a, func(s *db.Snapshot) error {
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
func (n Target) base(flag string) (dataset.Base, error) {
	base := map[string]dataset.Base{"auto": dataset.BaseAuto, "0": dataset.BaseZero, "1": dataset.BaseOne}
	if n.info == nil || n.info.Numbering == "" {
		return base[flag], nil
	}
	if flag != "auto" && flag != n.info.Numbering {
		return 0, command.Usagef("--base %s: collection %q counts features from %s",
			flag, n.info.Name, n.info.Numbering)
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
func (n Target) check(in *File, flag string) error {
	libsvm := in.Format == dataset.FormatLibsvm
	switch {
	case !libsvm && flag != "auto":
		return command.Usagef("--base is for libsvm files; %s is of format %s", in.Path, in.Format)
	case n.info == nil, n.info.Named && in.FeatureNames == nil: // the latter is refused later
	case libsvm && n.info.Numbering == "" && flag == "auto":
		return command.Usagef("collection %q does not record from which number its features count: "+
			"say --base 0 or --base 1 for %s",
			n.info.Name, in.Path)
	case in.countsFromZero() && !n.info.Named && n.info.Numbering == command.FromOne:
		n.note("%s counts features from 0, as %s does: its feature 0 is feature 1 of collection %q",
			in.Path, in.Format, n.info.Name)
	}
	return nil
}

// explain adds the collection to the error of a feature 0 that it has no place for.
func (n Target) explain(err error) error {
	fromOne := n.info != nil && n.info.Numbering == command.FromOne
	if !fromOne || !errors.Is(err, dataset.ErrFeatureZero) {
		return err
	}
	return fmt.Errorf("%w in collection %q, by its first import: "+
		"a file that counts from 0 needs a collection of its own (import --base 0)",
		err, n.info.Name)
}

// countsFromZero reports whether the file writes feature numbers and its format
// has them count from 0.
func (in *File) countsFromZero() bool {
	return in.Format == dataset.FormatXMC || in.Format == dataset.FormatHDF5 ||
		in.Format == dataset.FormatJSONL && !in.NamesItself()
}

// Numbering is what a collection records of the file it is made from. Names given
// by the file itself need no numbers.
func (in *File) Numbering(named bool) string {
	switch {
	case in.Base == dataset.BaseOne:
		return command.FromOne
	case named && (in.Format == dataset.FormatARFF || in.Format == dataset.FormatJSONL):
		return ""
	}
	return command.FromZero
}
