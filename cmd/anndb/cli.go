package main

import (
	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/evaluation"
	"github.com/anndb/anndb/cmd/anndb/internal/file"
	"github.com/anndb/anndb/cmd/anndb/internal/indexes"
	"github.com/anndb/anndb/cmd/anndb/internal/pictures"
	"github.com/anndb/anndb/cmd/anndb/internal/queries"
	"github.com/anndb/anndb/cmd/anndb/internal/rows"
	"github.com/anndb/anndb/cmd/anndb/internal/shell"
	"github.com/anndb/anndb/cmd/anndb/internal/transfer"
)

// cli is the grammar of the command line.
type cli struct {
	command.Globals `embed:"" group:"All commands:"`
	commands

	Shell   shell.Command    `cmd:"" default:"withargs" group:"Other:" help:"Open the shell, or run commands on a file; so does anndb FILE [COMMAND …]."`
	Version kong.VersionFlag `help:"Show the version."`

	Completion shell.Completion `cmd:"" group:"Other:" help:"Write a script that makes bash, zsh or fish complete commands, collections and keys."`
	Complete   shell.Complete   `cmd:"" hidden:""`
}

// line is the grammar of a line of the shell, in which FILE has been filled in.
type line struct {
	command.Globals `embed:"" group:"All commands:"`
	commands

	Version kong.VersionFlag `help:"Show the version."`
}

// commands are the commands of the command line and of the shell.
type commands struct {
	Create rows.Create     `cmd:"" group:"Rows:" help:"Make an empty collection."`
	Import transfer.Import `cmd:"" group:"Rows:" help:"Read vectors from a file into a collection."`
	Export transfer.Export `cmd:"" group:"Rows:" help:"Write a collection's rows to a file."`
	Put    rows.Put        `cmd:"" group:"Rows:" help:"Add a row, or replace the row of the same key."`
	Get    rows.Get        `cmd:"" group:"Rows:" help:"Show rows with all that they hold."`
	Update rows.Update     `cmd:"" group:"Rows:" help:"Change labels, attributes, payload or expiry of a row."`
	Delete rows.Delete     `cmd:"" group:"Rows:" help:"Delete rows by key or by filter."`
	Rows   rows.Rows       `cmd:"" group:"Rows:" help:"List rows."`
	Count  rows.Count      `cmd:"" group:"Rows:" help:"Count a collection's rows."`
	Copy   rows.Copy       `cmd:"" group:"Rows:" help:"Copy the rows of a collection to a new one."`
	Rename rows.Rename     `cmd:"" group:"Rows:" help:"Give a collection another name."`
	Drop   rows.Drop       `cmd:"" group:"Rows:" help:"Remove an index, or a collection with all its rows."`

	Build    indexes.Build    `cmd:"" group:"Indexes:" help:"Learn an index over a collection."`
	Tune     indexes.Tune     `cmd:"" group:"Indexes:" help:"Learn a label model with tuning; show the best settings."`
	Default  indexes.Default  `cmd:"" group:"Indexes:" help:"Choose the index of queries that name none; otherwise it is the first one built."`
	Maintain indexes.Maintain `cmd:"" group:"Indexes:" help:"Bring all indexes up to date with the rows."`

	Search   queries.Search      `cmd:"" group:"Queries:" help:"Find the nearest rows of queries."`
	Range    queries.Range       `cmd:"" group:"Queries:" help:"Find all rows within a distance of queries."`
	Predict  queries.Predict     `cmd:"" group:"Queries:" help:"Predict the labels of queries with a label model."`
	Explain  queries.Explain     `cmd:"" group:"Queries:" help:"Predict labels and show the rows and features that carried them, or the decisions of a tree."`
	Evaluate evaluation.Evaluate `cmd:"" group:"Queries:" help:"Measure recall and latency of indexes, or the quality of label models, on a file of queries."`
	Plot     pictures.Plot       `cmd:"" group:"Pictures:" help:"Draw recall and time, labels, leaves, a map of the rows, or a stored tree."`
	Report   pictures.Report     `cmd:"" group:"Pictures:" help:"Write an HTML page about the file: collections, indexes, recall, charts, sizes, health."`

	Stats   file.Stats   `cmd:"" group:"The file:" help:"Describe the file, its collections and its indexes."`
	Check   file.Check   `cmd:"" group:"The file:" help:"Verify every checksum and cross-reference of the file."`
	Compact file.Compact `cmd:"" group:"The file:" help:"Rewrite the file without its free pages, and without deleted rows where these are many."`
	Backup  file.Backup  `cmd:"" group:"The file:" help:"Copy the database, as of now, to another file."`
	Restore file.Restore `cmd:"" group:"The file:" help:"Check a backup and copy it over a database."`
	Repair  file.Repair  `cmd:"" group:"The file:" help:"Rebuild damaged indexes, or salvage a damaged file."`
}

// defaults are values that several commands share and some set otherwise.
var defaults = kong.Vars{"limit": "0"}
