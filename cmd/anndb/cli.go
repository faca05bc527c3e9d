package main

import (
	"github.com/alecthomas/kong"
)

// cli is the grammar of the command line.
type cli struct {
	globals `embed:"" group:"All commands:"`
	commands

	Shell   shellCmd         `cmd:"" default:"withargs" group:"Other:" help:"Open the shell, or run commands on a file; so does anndb FILE [COMMAND …]."`
	Version kong.VersionFlag `help:"Show the version."`

	Completion completionCmd `cmd:"" group:"Other:" help:"Write a script that makes bash, zsh or fish complete commands, collections and keys."`
	Complete   completeCmd   `cmd:"" hidden:""`
}

// line is the grammar of a line of the shell, in which FILE has been filled in.
type line struct {
	globals `embed:"" group:"All commands:"`
	commands

	Version kong.VersionFlag `help:"Show the version."`
}

// commands are the commands of the command line and of the shell.
type commands struct {
	Create createCmd `cmd:"" group:"Rows:" help:"Make an empty collection."`
	Import importCmd `cmd:"" group:"Rows:" help:"Read vectors from a file into a collection."`
	Export exportCmd `cmd:"" group:"Rows:" help:"Write a collection's rows to a file."`
	Put    putCmd    `cmd:"" group:"Rows:" help:"Add a row, or replace the row of the same key."`
	Get    getCmd    `cmd:"" group:"Rows:" help:"Show rows with all that they hold."`
	Update updateCmd `cmd:"" group:"Rows:" help:"Change labels, attributes, payload or expiry of a row."`
	Delete deleteCmd `cmd:"" group:"Rows:" help:"Delete rows by key or by filter."`
	Rows   rowsCmd   `cmd:"" group:"Rows:" help:"List rows."`
	Count  countCmd  `cmd:"" group:"Rows:" help:"Count a collection's rows."`
	Copy   copyCmd   `cmd:"" group:"Rows:" help:"Copy the rows of a collection to a new one."`
	Rename renameCmd `cmd:"" group:"Rows:" help:"Give a collection another name."`
	Drop   dropCmd   `cmd:"" group:"Rows:" help:"Remove an index, or a collection with all its rows."`

	Build    buildCmd    `cmd:"" group:"Indexes:" help:"Learn an index over a collection."`
	Tune     tuneCmd     `cmd:"" group:"Indexes:" help:"Learn a label model with tuning; show the best settings."`
	Default  defaultCmd  `cmd:"" group:"Indexes:" help:"Choose the index of queries that name none; otherwise it is the first one built."`
	Maintain maintainCmd `cmd:"" group:"Indexes:" help:"Bring all indexes up to date with the rows."`

	Search   searchCmd   `cmd:"" group:"Queries:" help:"Find the nearest rows of queries."`
	Range    rangeCmd    `cmd:"" group:"Queries:" help:"Find all rows within a distance of queries."`
	Predict  predictCmd  `cmd:"" group:"Queries:" help:"Predict the labels of queries with a label model."`
	Explain  explainCmd  `cmd:"" group:"Queries:" help:"Predict labels and show the rows and features that carried them, or the decisions of a tree."`
	Evaluate evaluateCmd `cmd:"" group:"Queries:" help:"Measure recall and latency of indexes, or the quality of label models, on a file of queries."`
	Plot     plotCmd     `cmd:"" group:"Pictures:" help:"Draw recall and time, labels, leaves, a map of the rows, or a stored tree."`
	Report   reportCmd   `cmd:"" group:"Pictures:" help:"Write an HTML page about the file: collections, indexes, recall, charts, sizes, health."`

	Stats   statsCmd   `cmd:"" group:"The file:" help:"Describe the file, its collections and its indexes."`
	Check   checkCmd   `cmd:"" group:"The file:" help:"Verify every checksum and cross-reference of the file."`
	Compact compactCmd `cmd:"" group:"The file:" help:"Rewrite the file without its free pages, and without deleted rows where these are many."`
	Backup  backupCmd  `cmd:"" group:"The file:" help:"Copy the database, as of now, to another file."`
	Restore restoreCmd `cmd:"" group:"The file:" help:"Check a backup and copy it over a database."`
	Repair  repairCmd  `cmd:"" group:"The file:" help:"Rebuild damaged indexes, or salvage a damaged file."`
}

// defaults are values that several commands share and some set otherwise.
var defaults = kong.Vars{"limit": "0"}
