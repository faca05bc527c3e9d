package table

// gap is the number of blanks between two columns.
const gap = 2

// leastWidth is what a column of text is not cut below.
const leastWidth = 8

// fit cuts the widths of columns, the widest first, until a line fits into room. Columns of
// numbers stay as they are. It reports whether the line fits.
func fit(columns []column, room int) bool {
	total := gap * (len(columns) - 1)
	for _, c := range columns {
		total += c.width
	}
	for ; total > room; total-- {
		var widest *column
		for i := range columns {
			c := &columns[i]
			if !c.right && c.width > leastWidth && (widest == nil || c.width > widest.width) {
				widest = c
			}
		}
		if widest == nil {
			return false
		}
		widest.width--
	}
	return true
}

// Cut shortens a cell to a width.
func Cut(cell string, width int) string {
	n := 0
	last := 0 // where the last rune that fits in front of the mark ends
	for i := range cell {
		if n == width-1 {
			last = i
		}
		if n == width {
			return cell[:last] + "…"
		}
		n++
	}
	return cell
}
