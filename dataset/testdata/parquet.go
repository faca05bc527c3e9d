//go:build ignore

// Writes the files of testdata/parquet, into the folder that is its argument, by parquet-go 0.32.
package main

import (
	"os"
	"time"

	"github.com/parquet-go/parquet-go"
)

type item struct {
	ID     int64     `parquet:"id"`
	Emb    []float32 `parquet:"emb,list"`
	Labels []string  `parquet:"labels,list"`
	Price  *float64  `parquet:"price,optional"`
	Count  uint32    `parquet:"count"`
	Brand  string    `parquet:"brand,dict"`
	Sold   bool      `parquet:"sold"`
	Seen   time.Time `parquet:"seen,timestamp(microsecond)"`
	Made   int32     `parquet:"made,date"`
	Text   string    `parquet:"payload"`
}

type splitItem struct {
	ID  int64     `parquet:"id"`
	Emb []float32 `parquet:"emb,list"`
	S   float32   `parquet:"s,split"`
}
type odd struct {
	V []float64 `parquet:"v,list"`
	W []int32   `parquet:"w"`
	D int64     `parquet:"d,decimal(2:18)"`
	G struct{ X, Y int32 }
}
type delta struct {
	N int64     `parquet:"n,delta"`
	V []float32 `parquet:"v,list"`
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
func write[T any](name string, rows []T, o ...parquet.WriterOption) {
	check(parquet.WriteFile(name, rows, o...))
}

func main() {
	seen := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	price := 2.5
	var items []item
	var splits []splitItem
	brands := []string{"acme", "", "brand c"}
	for i := range 300 {
		it := item{ID: int64(i), Emb: []float32{float32(i), float32(-i) / 2, 3}, Count: 1<<31 + uint32(i), Brand: brands[i%3], Sold: i%5 == 0,
			Seen: seen.Add(time.Duration(i) * time.Hour), Made: int32(20000 - 100*i)}
		for j := range i % 4 {
			it.Labels = append(it.Labels, []string{"a", "b|c", "d"}[j])
		}
		if i%2 == 0 {
			it.Price = &price
		}
		if i%7 == 0 {
			it.Text = "text"
		}
		items = append(items, it)
		splits = append(splits, splitItem{it.ID, it.Emb, float32(i) / 4})
	}
	os.Chdir(os.Args[1])
	small := parquet.PageBufferSize(512)
	write("plain.parquet", items, parquet.Compression(&parquet.Uncompressed))
	write("snappy.parquet", items, parquet.Compression(&parquet.Snappy), small)
	write("gzip.parquet", items, parquet.Compression(&parquet.Gzip), parquet.DataPageVersion(1), small)
	write("zstd.parquet", items, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(70))
	write("split.parquet", splits, parquet.Compression(&parquet.Zstd))
	write("odd.parquet", []odd{{V: []float64{1, 2}, W: []int32{3}}})
	write("lz4.parquet", items[:2], parquet.Compression(&parquet.Lz4Raw))
	write("delta.parquet", []delta{{1, []float32{1}}})
	write("ragged.parquet", splits[:0:0])
	write("ragged.parquet", []splitItem{{1, []float32{1}, 0}, {2, []float32{1, 2}, 0}})
	write("novector.parquet", []splitItem{{ID: 1}})
	write("none.parquet", []splitItem{})
}
