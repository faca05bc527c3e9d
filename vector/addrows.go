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
	if len(at) == 0 {
		return
	}
	// The last row must be within the cells, and none begin before them.
	var last [2]uint
	for i := 1; i < len(at); i += 2 {
		last[0], last[1] = max(last[0], uint(at[i-1])), max(last[1], uint(at[i]))
	}
	from := int(max(last[0], last[1], uint(at[len(at)-1])))
	_ = cells[from : from+len(sum)]
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
