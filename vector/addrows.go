package vector

// RowCells is what the number of sums of AddRows is a multiple of.
const RowCells = 32

// AddRows adds rows of cells, each times its factor, to sums:
//
//	sum[j] += x[i]·cells[at[i]+j]
//
// for i in ascending order and all j, in double precision, every product rounded
// before it is added: the bits of one after the other, wherever it runs. The number
// of sums is a multiple of RowCells, else nothing is added; x is as long as at, and
// every row within cells. O(len(sum)·len(at)).
func AddRows(sum []float64, cells []float32, at []int, x []float64) {
	if len(sum)%RowCells != 0 {
		return
	}
	for _, from := range at {
		_ = cells[from : from+len(sum)]
	}
	addRows(sum, cells, at, x[:len(at)])
}

func addRowsGo(sum []float64, cells []float32, at []int, x []float64) {
	for i, from := range at {
		row, factor := cells[from:from+len(sum)], x[i]
		for j, v := range row {
			sum[j] += float64(factor * float64(v)) // not fused
		}
	}
}
