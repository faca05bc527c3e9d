package labels

import (
	"context"
	"fmt"
	"slices"
)

// Reached returns the share of rows to which paths along lists of m rows lead from the row that is on
// most lists. Not all rows are reached if full lists have no room for some rows, or if rows form groups
// that are far from each other, so that no list of nearest rows leads out of its group. O(n·m).
// Errors: ErrShape.
func Reached(lists []uint32, m int) (float64, error) {
	r, err := newReach(lists, m)
	if err != nil {
		return 0, err
	}
	r.walkFromCentre()
	return r.share(), nil
}

// Reach makes rows reachable. A row to which no path leads is added to the list of the nearest reached
// candidate whose list has room, or, if none has room, of the nearest of the rows that these list. If none
// of them has room either, it replaces the last row on the list of the nearest reached candidate. The
// candidates of a row are, for instance, those that its list was selected from. Reach changes lists and
// returns the share of rows that are reached. O(n·m), and distances for the rows that are not reached.
// Errors: ErrShape, and the context's error.
func Reach(ctx context.Context, rows Rows, lists []uint32, m int, c Candidates) (float64, error) {
	r, err := newReach(lists, m)
	if err != nil {
		return 0, err
	}
	n := r.n
	if n != rows.Len() {
		return 0, fmt.Errorf("%w: %d lists for %d rows", ErrShape, n, rows.Len())
	}
	if err := c.check(n); err != nil {
		return 0, err
	}
	r.pruner = newPruner(rows)
	r.walkFromCentre()
	for round := 1; round < reachRounds && r.count < n; round++ {
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("labels: reach rows: %w", err)
		}
		r.repair(&c)
		r.walkFromCentre()
	}
	return r.share(), nil
}

// reachRounds is the number of times that Reach walks through the lists. A repair can make a full list
// lose a row to which no other path leads, so one round is not enough.
const reachRounds = 4

// reach is the state of one call of Reach.
type reach struct {
	pruner
	lists []uint32
	m, n  int
	seen  []bool
	count int // rows seen
	stack []uint32
	// scratch of leader
	near, next []uint32
}

func newReach(lists []uint32, m int) (*reach, error) {
	if m < 1 || len(lists)%m != 0 {
		return nil, fmt.Errorf("%w: %d entries in lists of %d", ErrShape, len(lists), m)
	}
	r := &reach{lists: lists, m: m, n: len(lists) / m}
	for at, id := range lists {
		if int64(id) >= int64(r.n) {
			return nil, fmt.Errorf("%w: row %d on the list of row %d, of %d rows", ErrShape, id, at/m, r.n)
		}
	}
	return r, nil
}

// share returns the share of rows that were seen.
func (r *reach) share() float64 {
	if r.n == 0 {
		return 1
	}
	return float64(r.count) / float64(r.n)
}

// walkFromCentre finds the rows to which paths lead from the row that is on most lists.
func (r *reach) walkFromCentre() {
	listed := make([]uint32, r.n)
	for at, id := range r.lists {
		if int(id) != at/r.m {
			listed[id]++
		}
	}
	r.seen, r.count = make([]bool, r.n), 0
	if r.n > 0 {
		r.walk(uint32(slices.Index(listed, slices.Max(listed))))
	}
}

// walk marks the rows to which paths lead from a row.
func (r *reach) walk(from uint32) {
	r.seen[from] = true
	r.stack = append(r.stack[:0], from)
	for len(r.stack) > 0 {
		i := r.stack[len(r.stack)-1]
		r.stack = r.stack[:len(r.stack)-1]
		r.count++
		for _, id := range r.lists[int(i)*r.m : (int(i)+1)*r.m] {
			if !r.seen[id] {
				r.seen[id] = true
				r.stack = append(r.stack, id)
			}
		}
	}
}

// repair adds rows that are not reached to lists of rows that are, until it reaches no more.
func (r *reach) repair(c *Candidates) {
	for had := -1; had != r.count; {
		had = r.count
		for i := range r.n {
			if r.seen[i] {
				continue
			}
			if best := r.leader(uint32(i), c); best >= 0 {
				r.add(best, uint32(i))
				r.walk(uint32(i))
			}
		}
	}
}

// leader returns the row to whose list a row is added, -1 if no candidate is reached.
func (r *reach) leader(i uint32, c *Candidates) int {
	r.near, r.next = r.near[:0], r.next[:0]
	for _, list := range c.of(int(i)) {
		for _, id := range list {
			if r.seen[id] {
				r.near = append(r.near, id)
			}
		}
	}
	if best := r.nearest(i, r.near, r.roomy); best >= 0 {
		return best
	}
	for _, id := range r.near {
		r.next = append(r.next, r.lists[int(id)*r.m:(int(id)+1)*r.m]...)
	}
	if best := r.nearest(i, r.next, r.roomy); best >= 0 {
		return best
	}
	return r.nearest(i, r.near, func(uint32) bool { return true })
}

// roomy reports whether the list of a row has room.
func (r *reach) roomy(id uint32) bool { return r.lists[int(id)*r.m+r.m-1] == id }

// nearest returns the nearest of ids that qualifies, -1 if none does.
func (r *reach) nearest(i uint32, ids []uint32, qualifies func(uint32) bool) int {
	best, least := -1, float32(0)
	for _, id := range ids {
		if !qualifies(id) {
			continue
		}
		if d := r.distance(i, id); best < 0 || d < least {
			best, least = int(id), d
		}
	}
	return best
}

// add adds a row to a list.
func (r *reach) add(to int, row uint32) {
	list := r.lists[to*r.m : (to+1)*r.m]
	at := slices.Index(list, uint32(to))
	if at < 0 {
		at = r.m - 1
	}
	list[at] = row
}
