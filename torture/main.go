// Command torture tries to make an anndb database lose or falsify data, by
// every means that works on an ordinary Linux machine: see README.md.
//
//	go run . [-seed S] [-scale sample|full] [-layers powercut,faults,…] [-dir DIR] [-v] [-list]
//
// It prints its seed and one line of totals for every layer, which ends with
// OK, FAILED or SKIPPED and a reason. The exit code is 1 if a layer failed.
// A layer that needs root, FUSE or a loop device is skipped without it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "child" {
		os.Exit(runChild(os.Args[2], os.Args[3:]))
	}
	seed := flag.Uint64("seed", 0, "seed of all random choices; 0 draws one")
	scale := flag.String("scale", "sample", "sample, which takes a minute, or full")
	only := flag.String("layers", "", "names of the layers to run, with commas; empty means all")
	dir := flag.String("dir", "", "where to make a scratch directory; empty means the system's")
	verbose := flag.Bool("v", false, "print what layers log as they run")
	list := flag.Bool("list", false, "print the names of the layers instead")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "usage: torture [flags]\n")
		flag.PrintDefaults()
		fmt.Fprintf(os.Stderr, "layers:\n")
		for _, l := range layers {
			fmt.Fprintf(os.Stderr, "  %-12s %s\n", l.name, l.doc)
		}
	}
	flag.Parse()
	if *list {
		for _, l := range layers {
			fmt.Println(l.name)
		}
		return
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := run(ctx, *seed, *scale, *only, *dir, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func runChild(name string, args []string) int {
	f, ok := children[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "torture: no child %q\n", name)
		return 2
	}
	if err := f(args); err != nil {
		fmt.Printf("error %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	return 0
}

// run runs the chosen layers and returns how many failed. An error is one of
// the flags or of the scratch directory.
func run(ctx context.Context, seed uint64, scale, only, dir string, verbose bool) (failed int, err error) {
	if scale != "sample" && scale != "full" {
		return 0, fmt.Errorf("-scale is sample or full, not %q", scale)
	}
	chosen := layers
	if only != "" {
		chosen = nil
		for _, name := range strings.Split(only, ",") {
			i := slices.IndexFunc(layers, func(l layer) bool { return l.name == name })
			if i < 0 {
				return 0, fmt.Errorf("there is no layer %q", name)
			}
			chosen = append(chosen, layers[i])
		}
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	scratch, err := os.MkdirTemp(dir, "torture-")
	if err != nil {
		return 0, err
	}
	// Absolute, because children and mounts have other working directories.
	if scratch, err = filepath.Abs(scratch); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	fmt.Printf("torture: -seed %d -scale %s, %d layers\n", seed, scale, len(chosen))
	start := time.Now()
	passed, left := 0, 0
	for _, l := range chosen {
		if err := ctx.Err(); err != nil {
			return failed, err
		}
		out := &tail{}
		if verbose {
			out.to = os.Stderr
		}
		e := &env{
			layer: l.name, seed: seed, full: scale == "full", dir: filepath.Join(scratch, l.name), self: self,
			log: log.New(out, l.name+": ", log.Ltime),
		}
		if err := os.Mkdir(e.dir, 0o700); err != nil {
			return failed, err
		}
		begin := time.Now()
		t, err := l.run(ctx, e)
		if err == nil {
			err = t.tooFew(l.least)
		}
		took := time.Since(begin)
		var skip skipError
		verdict := "OK"
		switch {
		case errors.As(err, &skip):
			verdict = "SKIPPED: " + string(skip)
			left++
		case err != nil:
			verdict = "FAILED: " + strings.ReplaceAll(err.Error(), "\n", "; ")
			failed++
		default:
			passed++
		}
		for _, s := range t.skipped {
			verdict += ", SKIPPED a part: " + s
		}
		fmt.Printf("%-12s %s%.1fs %s\n", l.name, t, took.Seconds(), verdict)
		if strings.HasPrefix(verdict, "FAILED") && !verbose {
			fmt.Print(out)
		}
		if err := os.RemoveAll(e.dir); err != nil {
			e.log.Print(err) // the whole scratch directory is removed at the end
		}
	}
	fmt.Printf("torture: %d layers passed, %d failed, %d skipped in %.1fs\n", passed, failed, left, time.Since(start).Seconds())
	return failed, nil
}
