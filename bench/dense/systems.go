package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anndb/anndb/bench/internal/vectors"
	"github.com/anndb/anndb/vector"
)

// system is one line of the tables: a library with what its index is made
// with and the settings of its search that are tried.
type system struct {
	name string
	// driver is the program that runs it: anndb, or one that bench/peers/build
	// makes.
	driver string
	// rows is the type of the rows it is given, f32 or u8.
	rows string
	// build are the words of its index.
	build string
	// settings are tried in turn, from fast to exact; nil stands for those that
	// the driver knows. The first step of a ladder that reaches a recall is the
	// one to take; otherwise the fastest that reaches it is.
	settings []string
	ladder   bool
	// limit is how many queries are asked, 0 for all, for systems that take
	// minutes otherwise.
	limit int
	// index names the system whose index this one shares; its own if empty.
	index string
	// note stands beside the table.
	note string
}

// indexName is the name of the index's file.
func (s *system) indexName() string {
	if s.index != "" {
		return s.index
	}
	return s.name
}

// ladder is name=10, 11, … in steps of about an eighth.
func ladder(name string, from, to int) []string {
	var out []string
	for v := from; v <= to; v += max(1, v/8) {
		out = append(out, fmt.Sprintf("%s=%d", name, v))
	}
	return out
}

// targets are the recalls of the tables.
var targets = []float64{0.80, 0.90, 0.95, 0.99, 0.999}

// systems are all systems for a set, anndb first.
func systems(s *vectors.Set) []system {
	metric, ip := "l2", "l2"
	if s.Metric == vector.Cosine {
		metric, ip = "cosine", "ip"
	}
	ef := ladder("ef", 10, 2500)
	lists := 256
	if s.Rows() > 300_000 {
		lists = 1024
	}
	var asked []string
	for _, t := range targets {
		asked = append(asked, fmt.Sprintf("recall=%g", t))
	}
	all := []system{
		{name: "anndb", driver: "anndb", rows: "f32", build: "metric=" + metric,
			note: "settings from the tuner's curve, chosen like the peers'"},
		{name: "anndb-target", driver: "anndb", rows: "f32", index: "anndb", build: "metric=" + metric, settings: asked,
			note: "asked for the recall, nothing else: Search with SearchOptions.Recall"},
	}
	if s.Whole {
		all = append(all,
			system{name: "anndb-f32", driver: "anndb", rows: "f32", build: "metric=" + metric + " storage=float32",
				note: "rows stored as float32 only"},
			system{name: "hnswlib-u8", driver: "hnswlib", rows: "u8", build: "metric=u8 M=16 efc=200", settings: ef, ladder: true,
				note: "rows as bytes, distance in bench/peers/u8_space.h"},
			system{name: "usearch-u8", driver: "usearch", rows: "u8", build: "metric=l2 M=16 efc=200", settings: ef, ladder: true},
		)
	} else {
		all = append(all,
			system{name: "hnswlib-u8q", driver: "hnswlib", rows: "u8", build: "metric=u8 M=16 efc=200", settings: ef, ladder: true,
				note: "rows rounded to bytes with one scale, which loses something"},
			system{name: "usearch-bf16", driver: "usearch", rows: "f32", build: "metric=" + ip + " as=bf16 M=16 efc=200", settings: ef, ladder: true,
				note: "rows rounded to bfloat16"},
		)
	}
	pq := s.Dim / 4
	var nprobe []string
	for _, w := range ladder("nprobe", 1, lists) {
		for _, refine := range []int{2, 4, 8, 16} {
			nprobe = append(nprobe, fmt.Sprintf("%s refine=%d", w, refine))
		}
	}
	sq := "kind=sq8 pad=8"
	if s.Whole {
		sq = "kind=sq8direct pad=8"
	}
	all = append(all,
		system{name: "hnswlib", driver: "hnswlib", rows: "f32", build: "metric=" + ip + " M=16 efc=200", settings: ef, ladder: true},
		system{name: "hnswlib-m32", driver: "hnswlib", rows: "f32", build: "metric=" + ip + " M=32 efc=200", settings: ef, ladder: true},
		system{name: "usearch", driver: "usearch", rows: "f32", build: "metric=" + ip + " M=16 efc=200", settings: ef, ladder: true},
		system{name: "faiss-hnsw", driver: "faiss", rows: "f32", build: "index=hnsw kind=flat metric=" + ip + " M=16 efc=200", settings: ef, ladder: true},
		system{name: "faiss-hnsw-sq8", driver: "faiss", rows: "f32", build: "index=hnsw " + sq + " metric=" + ip + " M=16 efc=200", settings: ef, ladder: true},
		system{name: "faiss-ivf", driver: "faiss", rows: "f32", build: fmt.Sprintf("index=ivf kind=flat metric=%s nlist=%d", ip, lists), settings: ladder("nprobe", 1, lists), ladder: true},
		system{name: "faiss-ivf-sq8", driver: "faiss", rows: "f32", build: fmt.Sprintf("index=ivf %s metric=%s nlist=%d", sq, ip, lists), settings: ladder("nprobe", 1, lists), ladder: true},
		system{name: "faiss-ivf-pqfs", driver: "faiss", rows: "f32", build: fmt.Sprintf("index=ivf kind=pqfs pq=%d metric=%s nlist=%d", pq, ip, lists), settings: nprobe},
	)
	all = append(all, quantizedGraphs(ip, ef)...)
	if s.Whole {
		all = append(all,
			system{name: "faiss-debian-hnsw-sq8", driver: "faiss-debian", rows: "f32", build: "index=hnsw " + sq + " metric=" + ip + " M=16 efc=200", settings: ef, ladder: true,
				note: "as Debian builds it, without AVX; not a fair peer"},
		)
	}
	if s.Rows() <= 60_000 {
		all = append(all,
			system{name: "coder-hnsw", driver: "gopeers", rows: "f32", build: "library=coder metric=" + metric + " M=16", settings: ladder("ef", 20, 640), ladder: true, limit: 200},
		)
	}
	if s.Metric == vector.Cosine {
		all = append(all,
			system{name: "chromem-go", driver: "gopeers", rows: "f32", build: "library=chromem metric=cosine", settings: []string{"exact=1"}, limit: 20,
				note: "compares with every row on all processors"},
		)
	}
	return all
}

// quantizedGraphs are the peers that search a graph over short codes, with the parameters
// of their own examples. The metric is l2 or ip. SymphonyQG supports L2 only, and its
// authors normalise rows compared by cosine, as those of the sets by cosine are here.
func quantizedGraphs(metric string, ef []string) []system {
	symphony := "metric=l2 efc=400 iterations=3 degree="
	glass := "metric=" + metric + " pad=16 R=48 L=200 "
	return []system{
		{name: "symphonyqg", driver: "symphonyqg", rows: "f32", settings: ef, ladder: true,
			build: symphony + "32", note: "needs AVX-512"},
		{name: "symphonyqg-d64", driver: "symphonyqg", rows: "f32", settings: ef, ladder: true,
			build: symphony + "64", note: "the same with degree 64"},
		{name: "pyglass", driver: "pyglass", rows: "f32", settings: ef, ladder: true,
			build: glass + "codes=SQ4U", note: "HNSW, searched over 4-bit codes, refined over float16"},
		{name: "pyglass-sq8", driver: "pyglass", rows: "f32", settings: ef, ladder: true,
			build: glass + "codes=SQ8U", note: "the same over 8-bit codes"},
		{name: "pyglass-f16", driver: "pyglass", rows: "f32", settings: ef, ladder: true,
			build: glass + "graph=FP16 codes=FP16", note: "built and searched over float16"},
	}
}

// pick keeps the systems that the patterns name, in their order here: names,
// or beginnings of names that end in *.
func pick(all []system, patterns []string) []system {
	if len(patterns) == 0 {
		return all
	}
	var out []system
	for _, s := range all {
		if slices.ContainsFunc(patterns, func(p string) bool {
			head, star := strings.CutSuffix(p, "*")
			return p == s.name || star && strings.HasPrefix(s.name, head)
		}) {
			out = append(out, s)
		}
	}
	return out
}
