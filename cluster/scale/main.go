// Command scale prints the tables of docs/SCALE.md: what many rows need, and how slow the slowest of many
// shards is, with and without asking a second replica.
package main

import (
	"fmt"
	"io"
	"math"
	"os"
)

func main() { report(os.Stdout, 2_000_000) }

// report prints all tables, of so many simulated questions.
func report(w io.Writer, questions int) {
	fmt.Fprintln(w, "| rows | bytes a row | file, TB | shards | nodes | logs, MB/s | build "+
		"| lost node, h | rebuild, h |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|")
	for _, r := range kinds {
		r.print(w, 1e9)
	}
	fmt.Fprintln(w, "\n| shards | p50, p99 of one replica each | hedged | p99, ratio "+
		"| late by a stall | hedged |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|")
	alone, _ := simulate(standard, questions, false)
	hedged, more := simulate(standard, questions, true)
	for _, n := range []int{1, 2, 5, 10, 20, 50, 100, 200} {
		a, b := quantile(alone, 0.99, n), quantile(hedged, 0.99, n)
		fmt.Fprintf(w, "| %d | %.1f, %.1f | %.1f, %.1f | %.1f | %.1f %% | %.1f %% |\n",
			n, quantile(alone, 0.5, n), a, quantile(hedged, 0.5, n), b, a/b,
			100*beyond(alone, late, n), 100*beyond(hedged, late, n))
	}
	fmt.Fprintf(w, "\n%.1f %% more questions.\n", 100*more)
}

// rowKind is what rows of a kind have been measured to need (bench/README.md, two cores).
type rowKind struct {
	name         string
	bytes        float64 // of the file, a row
	wire         float64 // of a message of the log, a row
	buildMinutes float64 // of a million rows
}

var kinds = []rowKind{
	{"10⁹ × 128", 748, 128*4*4/3 + 100, 116.0 / 60},
	{"10⁹ × 768", 3530, 768*4*4/3 + 100, 290.0 / 60},
}

const (
	nodeBytes  = 256e9 // of files on a node, half of which its memory holds
	replicas   = 3
	shardBytes = 32e9   // of a file that is built, copied and moved as one
	network    = 500e6  // bytes a second that a node copies at
	writes     = 10_000 // rows a second into the whole
)

// print prints what so many rows need.
func (r *rowKind) print(w io.Writer, rows float64) {
	size := rows * r.bytes
	shards := math.Ceil(size / shardBytes)
	nodes := math.Ceil(size * replicas / nodeBytes)
	build := shardBytes / r.bytes / 1e6 * r.buildMinutes / 60 // hours, of a shard
	perNode := shards * replicas / nodes
	fmt.Fprintf(w, "| %s | %.0f | %.2f | %.0f | %.0f | %.0f | %.1f h a shard | %.1f | %.1f |\n", r.name, r.bytes,
		size/1e12, shards, nodes, writes*r.wire*replicas/1e6, build, nodeBytes/network/3600, build*perNode)
}
