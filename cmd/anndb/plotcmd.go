package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anndb/anndb/internal/forestbench"
	"github.com/anndb/anndb/internal/plot"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/query"
)

// plotCmd draws curves or a tree.
type plotCmd struct {
	Curves    plotCurvesCmd    `cmd:"" default:"withargs" help:"Draw the curves of a bench CSV; so does plot CSV."`
	Recall    plotRecallCmd    `cmd:"" help:"Draw recall and time of the settings that the tuner measured."`
	Labels    plotLabelsCmd    `cmd:"" help:"Draw the numbers of rows by label, label set and number of labels."`
	Precision plotPrecisionCmd `cmd:"" help:"Draw precision@k of label models on a file of queries."`
	Time      plotTimeCmd      `cmd:"" help:"Draw where the time of a dense search goes."`
	Leaves    plotLeavesCmd    `cmd:"" help:"Draw how large the leaves of an index are."`
	Map       plotMapCmd       `cmd:"" help:"Draw the rows by two principal coordinates, coloured by label."`
	Tree      plotTreeCmd      `cmd:"" help:"Show a stored tree, with its features, as text, DOT, SVG or PNG."`
}

// plotCurvesCmd draws the CSV of a bench again.
type plotCurvesCmd struct {
	CSV       string   `arg:"" help:"bench.csv of anndb bench."`
	Out       string   `help:"Folder for a picture a forest, or one .svg or .png file for all." default:"."`
	Forest    []string `help:"Only these forests."`
	Method    []string `help:"Only these methods."`
	MinRecall float64  `help:"Where the axis of recall begins." default:"0.6"`
	Type      []string `help:"Kinds of pictures in a folder: svg, png." default:"svg,png"`
	pictureFlags
}

// pictureFlags are shared by pictures of charts.
type pictureFlags struct {
	Title  string `help:"Line above the picture."`
	Width  int    `help:"Pixels." default:"960"`
	Height int    `help:"Pixels." default:"600"`
	forceFlag
}

// check refuses sizes that are no picture's.
func (f pictureFlags) check() error {
	if f.Width < 100 || f.Height < 100 || f.Width > 10_000 || f.Height > 10_000 {
		return usagef("--width and --height: %d x %d (want 100 to 10,000)", f.Width, f.Height)
	}
	return nil
}

// Run executes the command.
func (c *plotCurvesCmd) Run(a *app) error {
	if !(c.MinRecall >= 0 && c.MinRecall < 1) {
		return usagef("--min-recall %g (want 0 to below 1)", c.MinRecall)
	}
	if err := c.check(); err != nil {
		return err
	}
	for _, f := range c.Type {
		if !slices.Contains(plot.Formats(), f) {
			return usagef("--type %q (want svg or png)", f)
		}
	}
	f, err := os.Open(c.CSV)
	if err != nil {
		return err
	}
	defer f.Close()
	points, err := forestbench.ReadCSV(f)
	if err != nil {
		return fmt.Errorf("%s: %w: plot wants the file that bench --out writes, bench.csv", c.CSV, err)
	}
	points = slices.DeleteFunc(points, func(p forestbench.Point) bool {
		return len(c.Forest) > 0 && !slices.Contains(c.Forest, p.Forest) ||
			len(c.Method) > 0 && !slices.Contains(c.Method, p.Method)
	})
	d := drawing{
		dir: c.Out, types: c.Type, minRecall: c.MinRecall,
		title: c.Title, width: c.Width, height: c.Height,
	}
	folder := filepath.Ext(c.Out) == "" || isFolder(c.Out)
	files := []string{c.Out}
	if folder {
		files = d.files(forestbench.Forests(points))
	}
	if err = c.refuse(files, c.CSV); err != nil {
		return err
	}
	if !folder {
		err = d.file(c.Out, c.Title, curvesOf(points, forestOf, methodOf))
	} else if err = os.MkdirAll(c.Out, 0o755); err == nil {
		files, err = d.all(points)
	}
	if err != nil {
		return err
	}
	t := table.New("picture")
	for _, p := range files {
		t.Add(p)
	}
	return a.Print(t)
}

func isFolder(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// drawing is where pictures go and how they look.
type drawing struct {
	dir           string
	types         []string
	minRecall     float64
	title         string
	width, height int
}

// files are the names of the pictures of these forests.
func (d drawing) files(forests []string) (paths []string) {
	for _, name := range append(slices.Clone(forests), allForests) {
		for _, kind := range d.types {
			paths = append(paths, filepath.Join(d.dir, name+"."+kind))
		}
	}
	return paths
}

// allForests is the name of the picture that compares all forests.
const allForests = "forests"

// all draws one picture a forest, with a curve a method, and one picture that
// compares the natural classifiers of all forests and the tuned indexes.
func (d drawing) all(points []forestbench.Point) ([]string, error) {
	var files []string
	draw := func(name, title string, curves []plot.Series) error {
		if d.title != "" {
			title = d.title + ": " + title
		}
		for _, kind := range d.types {
			path := filepath.Join(d.dir, name+"."+kind)
			if err := d.file(path, title, curves); err != nil {
				return err
			}
			files = append(files, path)
		}
		return nil
	}
	none := func(forestbench.Point) string { return "" }
	drawn := 0
	for _, f := range forestbench.Forests(points) {
		own := slices.DeleteFunc(slices.Clone(points), func(p forestbench.Point) bool { return p.Forest != f })
		err := draw(f, f, curvesOf(own, methodOf, none))
		if errors.Is(err, plot.ErrEmpty) { // nothing above the least recall
			continue
		}
		if err != nil {
			return files, err
		}
		drawn++
	}
	best := slices.DeleteFunc(slices.Clone(points), func(p forestbench.Point) bool {
		return p.Method != query.Natural.String() && p.Method != pipelineMethod
	})
	err := draw(allForests, "natural classifier by forest", curvesOf(best, forestOf, none))
	if errors.Is(err, plot.ErrEmpty) && drawn > 0 {
		err = nil
	}
	return files, err
}

// file draws one picture.
func (d drawing) file(path, title string, curves []plot.Series) error {
	format, err := plot.FormatOf(path)
	if err != nil {
		return err
	}
	chart := plot.RecallTime(title, d.minRecall, curves...)
	chart.Width, chart.Height = d.width, d.height
	err = writeFile(path, 0o644, func(w io.Writer) error { return chart.Write(w, format) })
	if err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	return nil
}

func forestOf(p forestbench.Point) string { return p.Forest }
func methodOf(p forestbench.Point) string { return p.Method }

// curvesOf makes a curve of the best points of every group and style.
func curvesOf(points []forestbench.Point, group, style func(forestbench.Point) string) []plot.Series {
	var curves []plot.Series
	for _, p := range points {
		g, s := group(p), style(p)
		i := slices.IndexFunc(curves, func(c plot.Series) bool { return c.Group == g && c.Style == s })
		if i < 0 {
			i = len(curves)
			curves = append(curves, plot.Series{Name: strings.TrimSpace(g + " " + s), Group: g, Style: s})
		}
		curves[i].Points = append(curves[i].Points, plot.Point{X: p.Recall, Y: p.Micros})
	}
	for i := range curves {
		curves[i].Points = plot.Front(curves[i].Points)
	}
	return curves
}
