package main

import (
	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/evaluation"
	"github.com/anndb/anndb/cmd/anndb/internal/file"
	"github.com/anndb/anndb/cmd/anndb/internal/indexes"
	"github.com/anndb/anndb/cmd/anndb/internal/queries"
	"github.com/anndb/anndb/cmd/anndb/internal/rows"
	"github.com/anndb/anndb/cmd/anndb/internal/serving"
	"github.com/anndb/anndb/cmd/anndb/internal/shell"
	"github.com/anndb/anndb/cmd/anndb/internal/transfer"
)

// cli is the grammar of the command line.
type cli struct {
	command.Globals `embed:"" group:"All commands:"`
	commands

	Serve   serving.Serve `cmd:"" group:"Other:"`
	Shell   shell.Command `cmd:"" default:"withargs" group:"Other:"`
	Version kong.VersionFlag

	Completion shell.Completion `cmd:"" group:"Other:"`
	Complete   shell.Complete   `cmd:"" hidden:""`
}

// line is the grammar of a line of the shell, in which FILE has been filled in.
type line struct {
	command.Globals `embed:"" group:"All commands:"`
	commands

	Version kong.VersionFlag
}

// hosted is the grammar of commands that run in the process of a server.
type hosted struct {
	command.Globals `embed:""`
	commands

	Complete shell.Complete `cmd:"" hidden:""`
}

// commands are the commands of the command line and of the shell.
type commands struct {
	Create rows.Create     `cmd:"" group:"Rows:"`
	Import transfer.Import `cmd:"" group:"Rows:"`
	Export transfer.Export `cmd:"" group:"Rows:"`
	Put    rows.Put        `cmd:"" group:"Rows:"`
	Get    rows.Get        `cmd:"" group:"Rows:"`
	Update rows.Update     `cmd:"" group:"Rows:"`
	Delete rows.Delete     `cmd:"" group:"Rows:"`
	Rows   rows.Rows       `cmd:"" group:"Rows:"`
	Count  rows.Count      `cmd:"" group:"Rows:"`
	Copy   rows.Copy       `cmd:"" group:"Rows:"`
	Rename rows.Rename     `cmd:"" group:"Rows:"`
	Drop   rows.Drop       `cmd:"" group:"Rows:"`

	Build    indexes.Build    `cmd:"" group:"Indexes:"`
	Tune     indexes.Tune     `cmd:"" group:"Indexes:"`
	Default  indexes.Default  `cmd:"" group:"Indexes:"`
	Maintain indexes.Maintain `cmd:"" group:"Indexes:"`
	Tree     indexes.Tree     `cmd:"" group:"Indexes:"`

	Search   queries.Search      `cmd:"" group:"Queries:"`
	Range    queries.Range       `cmd:"" group:"Queries:"`
	Predict  queries.Predict     `cmd:"" group:"Queries:"`
	Evaluate evaluation.Evaluate `cmd:"" group:"Queries:"`

	Stats   file.Stats   `cmd:"" group:"The file:"`
	Report  file.Report  `cmd:"" group:"The file:"`
	Check   file.Check   `cmd:"" group:"The file:"`
	Compact file.Compact `cmd:"" group:"The file:"`
	Backup  file.Backup  `cmd:"" group:"The file:"`
	Restore file.Restore `cmd:"" group:"The file:"`
	Repair  file.Repair  `cmd:"" group:"The file:"`
}

// prepare makes the flags that are derived from options.
func (c *commands) prepare() {
	c.Build.Prepare()
	c.Tune.Prepare()
}

// variables are parts of tags: defaults that some commands set otherwise, and long lists of values.
var variables = kong.Vars{
	"limit":      "0",
	"formats":    ",table,vertical,markdown,csv,json,jsonl",
	"kinds":      ",rp,kd,kd-chrono,pca,rf,postings,lcif,labeltree,auto-labels,sbt,pt,at",
	"objectives": "micro-f1,macro-f1,accuracy,hamming-loss,p@1,p@3,p@5,ndcg@5,psp@5",
}
