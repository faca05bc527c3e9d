package vector

// RowCells divides the number of sums of AddRows.
const RowCells = 32

// AddRows adds rows of cells, each multiplied by its factor, to sums:
//
//	sum[j] += x[i]·cells[at[i]+j]
//
// for i in ascending order and all j, in double precision. Every product is rounded
// before it is added, so all processors give the same bits. AddRows does nothing
// unless len(sum) is a multiple of RowCells. x must be as long as at, and every row
// must be within cells. O(len(sum)·len(at)).
func AddRows(sum []float64, cells []float32, at []int, x []float64) {
	if len(sum)%RowCells != 0 {
		return
	}
	if len(at) == 0 {
		return
	}
	// As unsigned numbers, negative offsets are the largest: one check covers all rows.
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
