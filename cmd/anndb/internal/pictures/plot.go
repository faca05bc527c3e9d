// Package pictures has the commands plot and report.
package pictures

import "github.com/anndb/anndb/cmd/anndb/internal/command"

// Plot draws what a file holds.
type Plot struct {
	Recall    plotRecallCmd    `cmd:""`
	Labels    plotLabelsCmd    `cmd:""`
	Precision plotPrecisionCmd `cmd:""`
	Time      plotTimeCmd      `cmd:""`
	Leaves    plotLeavesCmd    `cmd:""`
	Map       plotMapCmd       `cmd:""`
	Tree      plotTreeCmd      `cmd:""`
}

// pictureFlags are shared by pictures of charts.
type pictureFlags struct {
	Title  string
	Width  int `default:"960" want:"100 10000"`
	Height int `default:"600" want:"100 10000"`
	command.ForceFlag
}
