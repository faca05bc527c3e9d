package table

// gap is the number of blanks between two columns.
const gap = 2

// leastWidth is what a column of text is not cut below.
const leastWidth = 8

// fit cuts the widths of columns, the widest first, until a line fits into room. Columns of
// numbers stay as they are. It reports whether the line fits; if not, it changes nothing.
func fit(width []int, number []bool, room int) bool {
	cut := append([]int(nil), width...)
	total := gap * (len(cut) - 1)
	for _, w := range cut {
		total += w
	}
	for ; total > room; total-- {
		widest := -1
		for i, w := range cut {
			if !number[i] && w > leastWidth && (widest < 0 || w > cut[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		cut[widest]--
	}
	copy(width, cut)
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
