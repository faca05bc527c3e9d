package forestindex

import (
	"cmp"
	"runtime/debug"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
)

// Absorbed rows enter the graph of neighbor lists much as in a build: their lists are pruned by the same
// rule, and each row is a candidate for the lists of its nearest rows and of the rows on its own list.

// link makes the neighbor lists of the absorbed rows and adds the rows to those of others.
func (f *absorbing) link() error {
	k := f.hops.width
	near, lists := make([][]uint32, len(f.rows)), make([]uint32, len(f.rows)*k)
	err := f.thin(len(f.rows), func(t *labels.Thinner, i int) {
		for _, c := range f.near[i] {
			near[i] = append(near[i], c.row)
		}
		t.Thin(f.rows[i], near[i], lists[i*k:(i+1)*k])
	})
	if err != nil {
		return err
	}
	var added []listing
	for i, row := range f.rows {
		list := lists[i*k : (i+1)*k]
		copy(f.hops.row(int(row)), list)
		for j, id := range near[i] {
			if j < k || slices.Contains(list, id) {
				added = append(added, listing{id, row})
			}
		}
	}
	left, err := f.add(added)
	if err != nil {
		return err
	}
	for i, row := range f.rows {
		if last, ok := f.keepListed(row, near[i]); ok {
			left = append(left, last)
		}
	}
	for range listedRounds {
		var displaced []uint32
		for _, row := range left {
			if last, ok := f.keepListed(row, f.hops.at(int(row))); ok {
				displaced = append(displaced, last)
			}
		}
		left = displaced
	}
	return nil
}

// listedRounds is the number of times that rows are put on lists in place of others.
const listedRounds = 4

// listing is a row that becomes a candidate for a list.
type listing struct{ on, row uint32 }

// add adds rows to lists, and returns the rows that these lists no longer hold.
func (f *absorbing) add(added []listing) (left []uint32, err error) {
	slices.SortStableFunc(added, func(a, b listing) int { return cmp.Compare(a.on, b.on) })
	var lists, candidates [][]uint32
	var owners []uint32
	var held []int // candidates that were on the list
	for len(added) > 0 {
		on := added[0].on
		list := f.hops.row(int(on))
		// A forged file may list rows that do not exist.
		all := slices.DeleteFunc(slices.Clone(list), func(row uint32) bool { return int(row) >= f.hi })
		held = append(held, len(all))
		for len(added) > 0 && added[0].on == on {
			all = append(all, added[0].row)
			added = added[1:]
		}
		owners, lists, candidates = append(owners, on), append(lists, list), append(candidates, all)
	}
	err = f.thin(len(owners), func(t *labels.Thinner, i int) { t.Thin(owners[i], candidates[i], lists[i]) })
	for i, list := range lists {
		for _, row := range candidates[i][:held[i]] {
			if row != owners[i] && !slices.Contains(list, row) {
				left = append(left, row)
			}
		}
	}
	return left, err
}

// keepListed makes sure that the list of at least one of the given rows, nearest first, has row. If none
// has, it adds row to the first list with room, or else puts it in the last place of the first list and
// returns the displaced row.
func (f *absorbing) keepListed(row uint32, near []uint32) (displaced uint32, ok bool) {
	last := f.hops.width - 1
	on, roomy := row, false
	for _, id := range near {
		if id == row || int(id) >= f.hi {
			continue
		}
		list := f.hops.at(int(id))
		if slices.Contains(list, row) {
			return 0, false
		}
		if room := list[last] == id; on == row || room && !roomy {
			on, roomy = id, room
		}
	}
	if on == row {
		return 0, false
	}
	list, at := f.hops.row(int(on)), last
	if roomy {
		at = slices.Index(list, on)
	}
	displaced, list[at] = list[at], row
	return displaced, !roomy
}

// thin calls prune for i in [0, n) with a Thinner over all rows, on the step's goroutines.
func (f *absorbing) thin(n int, prune func(t *labels.Thinner, i int)) error {
	return f.each(n, func() func(i, _ int) error {
		t := labels.NewThinner(spacedRows{f.v, f.hi})
		return func(i, _ int) (err error) {
			defer f.st.Guard(debug.SetPanicOnFault(true), &err)
			prune(t, i)
			return nil
		}
	})
}

// spacedRows are the first n rows of a view in its partition space.
type spacedRows struct {
	v *query.View
	n int
}

func (r spacedRows) Len() int { return r.n }
func (r spacedRows) Dim() int { return r.v.Inner() }
func (r spacedRows) Row(i int, buf []float32) []float32 {
	rowInSpace(r.v, i, buf)
	return buf
}

var _ labels.Rows = spacedRows{}
