// Package pictures has the commands plot and report.
package pictures

import "github.com/anndb/anndb/cmd/anndb/internal/command"

// Plot draws what a file holds.
type Plot struct {
	Recall    plotRecallCmd    `cmd:"" help:"Draw recall and time of the settings that the tuner measured."`
	Labels    plotLabelsCmd    `cmd:"" help:"Draw the numbers of rows by label, label set and number of labels."`
	Precision plotPrecisionCmd `cmd:"" help:"Draw precision@k of label models on a file of queries."`
	Time      plotTimeCmd      `cmd:"" help:"Draw where the time of a dense search goes."`
	Leaves    plotLeavesCmd    `cmd:"" help:"Draw how large the leaves of an index are."`
	Map       plotMapCmd       `cmd:"" help:"Draw the rows by two principal coordinates, coloured by label."`
	Tree      plotTreeCmd      `cmd:"" help:"Show a stored tree, with its features, as text, DOT or SVG."`
}

// pictureFlags are shared by pictures of charts.
type pictureFlags struct {
	Title  string `help:"Line above the picture."`
	Width  int    `help:"Pixels." default:"960"`
	Height int    `help:"Pixels." default:"600"`
	command.ForceFlag
}

// check refuses sizes that are no picture's.
func (f pictureFlags) check() error {
	if f.Width < 100 || f.Height < 100 || f.Width > 10_000 || f.Height > 10_000 {
		return command.Usagef("--width and --height: %d x %d (want 100 to 10,000)", f.Width, f.Height)
	}
	return nil
}
