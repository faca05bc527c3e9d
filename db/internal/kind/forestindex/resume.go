package forestindex

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/kind"
)

// A build with a folder for checkpoints keeps there which rows it reads, the state of their approximate
// neighbors after each round (package labels), and their neighbor lists. What follows is done again.

// resumeVersion is increased whenever a build learns something else from the same rows and options.
const resumeVersion = 1

// interrupted are the rows of an interrupted build. The rows that were written since are fresh rows of the
// index, as if they had been written while it was built.
type interrupted struct {
	n   int      // rows, deleted ones included
	ids []uint32 // the live rows, nil for all
	sum uint32   // of the rows
}

// live returns the number of live rows of an interrupted build, or of a collection if there is none.
func (k *interrupted) live(c *kind.Collection) int {
	switch {
	case k == nil:
		return int(c.Live)
	case k.ids == nil:
		return k.n
	}
	return len(k.ids)
}

// keptName and listsName are the names of results.
const (
	keptName  = "rows"
	listsName = "lists"
)

// loadRows returns the rows of an interrupted build with the options of a job, nil if there is none or if
// the collection has fewer rows.
func loadRows(job *kind.Job, c *kind.Collection) (*interrupted, error) {
	if job.Keep == nil {
		return nil, nil
	}
	options, err := json.Marshal(job.Opts)
	if err != nil {
		return nil, err
	}
	job.Keep = job.Keep.For(fmt.Appendf(options, " %d", resumeVersion))
	var numbers []uint64
	var k interrupted
	found, err := job.Keep.Load(keptName, &numbers, &k.ids)
	if err != nil || !found || len(numbers) != 3 || numbers[0] > uint64(c.Rows) {
		return nil, err
	}
	k.n, k.sum = int(numbers[0]), uint32(numbers[1])
	if numbers[2] == 0 {
		k.ids = nil
	}
	for i, row := range k.ids {
		if int(row) >= k.n || i > 0 && row <= k.ids[i-1] {
			return nil, nil
		}
	}
	if k.n == 0 || numbers[2] != 0 && len(k.ids) == 0 {
		return nil, nil
	}
	return &k, nil
}

// saveRows keeps which rows a build reads.
func (t *training) saveRows(job *kind.Job) error {
	if job.Keep == nil {
		return nil
	}
	numbers := []uint64{uint64(t.total()), uint64(t.keepFor(job)), 0}
	if t.corpus.ids != nil {
		numbers[2] = 1
	}
	return job.Keep.Save(keptName, numbers, t.corpus.ids)
}

// keepFor lets a build keep results over its rows, and returns a checksum of these.
func (t *training) keepFor(job *kind.Job) uint32 {
	sum := crc32.Checksum(codec.Bytes(t.corpus.ids), castagnoli)
	for i := range t.corpus.Len() {
		sum = crc32.Update(sum, castagnoli, codec.Bytes(t.corpus.Row(i, nil)))
	}
	t.keep = job.Keep.For(fmt.Appendf(nil, "%d %d %d", t.total(), t.corpus.Len(), sum))
	return sum
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// saveLists keeps the neighbor lists of the live rows.
func (t *training) saveLists(lists []uint32, reached float64) error {
	return t.keep.Save(listsName, []uint64{math.Float64bits(reached)}, lists)
}

// loadLists returns neighbor lists of k rows that were kept, nil if there are none.
func (t *training) loadLists(k int) (lists []uint32, reached float64, err error) {
	var numbers []uint64
	found, err := t.keep.Load(listsName, &numbers, &lists)
	if err != nil || !found || len(numbers) != 1 || len(lists) != t.corpus.Len()*k {
		return nil, 0, err
	}
	for _, id := range lists {
		if int(id) >= t.corpus.Len() {
			return nil, 0, nil
		}
	}
	return lists, math.Float64frombits(numbers[0]), nil
}
