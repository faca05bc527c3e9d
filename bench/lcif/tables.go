package main

import (
	"fmt"
	"slices"

	"github.com/anndb/anndb/bench/internal/lcifbench"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/query/lcif"
)

// qualityTable has a row for each measure and variant. gap is by how much the
// test figure falls short of the paper's, below zero where it is better; bar is
// what must be reached.
func qualityTable() *table.Table {
	return table.New("set", "measure", "variant", "tuned:3", "test:3", "test_zero:3", "paper:3", "gap:3", "bar:3",
		"setting")
}

func addQuality(t *table.Table, rows []lcifbench.QualityRow) {
	for _, r := range rows {
		var paper, gap, bar any
		if r.HasPaper {
			paper, gap = r.Paper, r.Gap()
		}
		if least, ok := lcifbench.EurlexTarget(r.Objective); ok && r.Set == extremeSet && r.Variant == lcifbench.Combined {
			bar = least
		}
		p := r.Params
		setting := lcif.Setting{Features: p.Features, K: p.K, Alpha: p.Alpha, Beta: p.Beta, Lambda: p.Lambda}
		t.Add(r.Set, r.Objective.String(), r.Variant.String(), r.Tuned, r.Test, r.TestZero, paper, gap, bar,
			setting.Parameters()+", "+r.Cut.String())
	}
}

func timesTable() *table.Table {
	return table.New("set", "train_rows", "test_rows", "tune:2", "train:3", "similarities:3", "k",
		"neighbours:3", "predict:3", "paper")
}

func addTimes(t *table.Table, x lcifbench.Times) {
	var paper any
	if _, _, combined, ok := lcifbench.PaperTable6(x.Set); ok {
		paper = fmt.Sprintf("train and test %.1f", combined)
	} else if p := lcifbench.PaperTable7; x.Set == extremeSet {
		paper = fmt.Sprintf("grid %.1f, neighbours %.1f, similarities %.1f, predictions by features %.1f", p[0], p[1], p[2], p[3])
	}
	t.Add(x.Set, x.TrainRows, x.TestRows, x.Tune, x.Train, x.Similarities, x.K, x.Neighbors, x.Predict, paper)
}

// storedTable has a row for each label model in a file. share is that of the
// inverted index of the pairs.
func storedTable() *table.Table {
	return table.New("set", "pairs", "index", "share:2", "similarities", "labels", "first_ms:1", "test_rows",
		"predict:3", "one_micros:1", "batch_micros:1", "faster:2", "differ")
}

func addStored(t *table.Table, r lcifbench.StoredRow) {
	t.Add(r.Set, r.Pairs, r.Index, float64(r.Index)/float64(max(1, r.Pairs)), r.Similarities, r.Labels, r.First,
		r.TestRows, r.Predict, r.One, r.Batch, r.One/max(r.Batch, 1e-9), r.Differ)
}

// searchTable has a row for each strategy. faster is how many times as long the paper's TAAT by a hash
// map takes; wrong counts queries whose answers differ from brute force.
func searchTable() *table.Table {
	return table.New("set", "strategy", "rows", "queries", "length:1", "candidates:0", "share:3",
		"paper_candidates", "micros:1", "faster:2", "paper_micros", "size", "bytes", "wrong")
}

func addSearches(t *table.Table, rows []lcifbench.SearchRow) {
	for _, r := range rows {
		var paper, paperMicros any
		if mwand, _, plain, ok := lcifbench.PaperTable4(r.Set); ok {
			switch r.Strategy {
			case "m = 0":
				paper = mwand
			case "hash TAAT":
				paper = plain
			}
		}
		columns := []string{"m = 0", "m = 1", "m = 20", "m = 100", "m = 500", "m = 1000", "hash TAAT"}
		if i := slices.Index(columns, r.Strategy); i >= 0 && r.Set == extremeSet {
			paperMicros = 1000 * lcifbench.PaperTable5[i]
		}
		t.Add(r.Set, r.Strategy, r.Rows, r.Queries, r.Length, r.Candidates, r.Share, paper, r.Micros, r.Ratio,
			paperMicros, table.Size(int64(r.Bytes)), r.Bytes, r.Wrong)
	}
}
