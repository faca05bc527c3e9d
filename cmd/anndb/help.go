package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// printHelp is the help of kong with the flags of all commands at the end, and examples.
func printHelp(o kong.HelpOptions, ctx *kong.Context) error {
	out, text := ctx.Stdout, new(strings.Builder)
	ctx.Stdout = text
	err := kong.DefaultHelpPrinter(o, ctx)
	ctx.Stdout = out
	if err != nil {
		return err
	}
	blocks := strings.Split(strings.TrimSpace(text.String()), "\n\n")
	slices.SortStableFunc(blocks, func(a, b string) int {
		return cmp.Compare(strings.Index(a, "All commands:"), strings.Index(b, "All commands:"))
	})
	fmt.Fprintln(out, strings.Join(blocks, "\n\n"))
	name := "anndb"
	if n := ctx.Selected(); n != nil {
		name, _, _ = strings.Cut(n.Path(), " <")
	}
	fmt.Fprintln(ctx.Stdout, "\nExamples:")
	for _, e := range examples[strings.TrimPrefix(name, "anndb ")] {
		fmt.Fprintln(ctx.Stdout, "  "+e)
	}
	return nil
}

// examples are the two command lines at the end of the help of each command.
var examples = map[string][2]string{
	"anndb": {
		"anndb images.anndb                                  # the shell",
		"anndb images.anndb 'search images like 7 -k 5'      # one command",
	},
	"create": {
		"anndb create shop.anndb shoes --dim 128 --metric cosine",
		"anndb create docs.anndb notes --named",
	},
	"import": {
		"anndb import images.anndb images train-images-idx3-ubyte.gz --labels train-labels-idx1-ubyte.gz",
		"anndb import shop.anndb shoes shoes.csv --attribute brand,price:float",
	},
	"export": {
		"anndb export shop.anndb shoes shoes.jsonl --where 'price < 20'",
		"anndb export shop.anndb shoes - --as csv | head",
	},
	"put": {
		"anndb put shop.anndb points p1 '[1, 2.5]' --label red,blue --attribute price=19.5",
		"anndb put docs.anndb notes n1 goal=2 keeper --label sport --expires 48h",
	},
	"get": {
		"anndb get shop.anndb shoes boot-1",
		"anndb get shop.anndb shoes boot-1 boot-2 --format jsonl",
	},
	"update": {
		"anndb update shop.anndb shoes boot-1 --add-label sale --attribute price=9.5",
		"anndb update shop.anndb shoes boot-1 --label= --expires never",
	},
	"delete": {
		"anndb delete shop.anndb shoes boot-1 boot-2",
		"anndb delete shop.anndb shoes --where 'price > 100 or key prefix \"tmp/\"'",
	},
	"rows": {
		"anndb rows shop.anndb shoes --where 'price < 20 and label in (boot)' --limit 5",
		"anndb rows shop.anndb shoes --prefix boot- --vectors --format jsonl",
	},
	"count": {
		"anndb count shop.anndb shoes",
		"anndb count shop.anndb shoes --where 'price < 20'",
	},
	"copy": {
		"anndb copy shop.anndb shoes boots --where 'label in (boot)'",
		"anndb copy shop.anndb shoes shoes-before",
	},
	"rename": {
		"anndb rename shop.anndb shoes boots",
		"anndb shop.anndb 'rename shoes old; rename new shoes'",
	},
	"drop": {
		"anndb drop shop.anndb shoes main",
		"anndb drop shop.anndb shoes-before --yes",
	},
	"default": {
		"anndb default shop.anndb shoes main",
		"anndb default docs.anndb bibtex labels",
	},
	"build": {
		"anndb build images.anndb images",
		"anndb build docs.anndb bibtex tree --kind at --budget 100",
	},
	"tune": {
		"anndb tune docs.anndb bibtex labels",
		"anndb tune docs.anndb bibtex tree --kind at --budgets 50,100 --settings 5",
	},
	"maintain": {
		"anndb maintain shop.anndb",
		"anndb maintain shop.anndb --share 0.1",
	},
	"search": {
		"anndb search images.anndb images like 7 -k 5 --recall 0.99",
		"anndb search docs.anndb bibtex social network=2 --where 'label in (web)'",
	},
	"range": {
		"anndb range images.anndb images 1500 like 7",
		"anndb range shop.anndb points 2.5 '[1, 2]' --where 'price < 20'",
	},
	"predict": {
		"anndb predict docs.anndb bibtex social network",
		"anndb predict docs.anndb bibtex bibtex-test.arff.gz -k 3 --format csv",
	},
	"explain": {
		"anndb explain docs.anndb bibtex social network --index labels",
		"anndb explain docs.anndb bibtex like 17 --index tree",
	},
	"evaluate": {
		"anndb evaluate images.anndb images --queries t10k-images-idx3-ubyte.gz --limit 1000",
		"anndb evaluate docs.anndb bibtex --queries bibtex-test.arff.gz",
	},
	"plot recall": {
		"anndb plot recall images.anndb images",
		"anndb plot recall images.anndb images --out recall.svg",
	},
	"plot labels": {
		"anndb plot labels docs.anndb bibtex",
		"anndb plot labels docs.anndb bibtex --out labels.svg",
	},
	"plot precision": {
		"anndb plot precision docs.anndb bibtex --queries bibtex-test.arff.gz",
		"anndb plot precision docs.anndb bibtex --queries bibtex-test.arff.gz --out p.svg",
	},
	"plot leaves": {
		"anndb plot leaves images.anndb images main",
		"anndb plot leaves images.anndb images main --out leaves.svg",
	},
	"plot time": {
		"anndb plot time images.anndb images --queries t10k-images-idx3-ubyte.gz",
		"anndb plot time images.anndb images --queries q.npy --out time.svg",
	},
	"plot map": {
		"anndb plot map images.anndb images",
		"anndb plot map shop.anndb shoes --by brand --out map.svg",
	},
	"report": {
		"anndb report images.anndb --out images.html",
		"anndb report images.anndb --check",
	},
	"plot tree": {
		"anndb plot tree docs.anndb bibtex tree",
		"anndb plot tree docs.anndb bibtex tree --out tree.svg --nodes 30",
	},
	"stats": {
		"anndb stats shop.anndb",
		"anndb stats shop.anndb shoes --format json",
	},
	"check": {
		"anndb check shop.anndb",
		"anndb check shop.anndb --json",
	},
	"compact": {
		"anndb compact shop.anndb",
		"anndb compact images.anndb --reorder",
	},
	"backup": {
		"anndb backup shop.anndb shop-monday.anndb",
		"anndb backup shop.anndb - | gzip > shop.anndb.gz",
	},
	"restore": {
		"anndb restore shop-monday.anndb shop.anndb",
		"anndb restore shop-monday.anndb shop.anndb --force",
	},
	"repair": {
		"anndb repair shop.anndb",
		"anndb repair shop.anndb --to saved.anndb",
	},
	"completion": {
		"anndb completion bash > ~/.local/share/bash-completion/completions/anndb",
		"anndb completion fish > ~/.config/fish/completions/anndb.fish",
	},
	"shell": {
		"anndb shop.anndb",
		"anndb shop.anndb 'count shoes; rows shoes where price < 20'",
	},
}
