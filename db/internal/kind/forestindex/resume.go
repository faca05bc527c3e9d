package forestindex

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/internal/checkpoint"
	"github.com/anndb/anndb/vector"
)

// A build with a folder for checkpoints saves there which rows it reads, the state of their approximate
// neighbors (package labels), and their neighbor lists. Everything else is computed again.

// resumeVersion is increased whenever a build learns something else from the same rows and options.
const resumeVersion = 1

// staleShare is the share of rows that were written or deleted since an interrupted build, from which on a
// build begins with the present rows.
const staleShare = 0.1

// Names of results.
const (
	rowsName  = "rows"
	listsName = "lists"
)

// Numbers of the saved rows.
const (
	rowsCount   = iota
	rowsSum     // storedRows.sum
	rowsPartial // 1 if the live rows are listed
	rowsNumbers
)

// resume reduces the rows to those of an interrupted build with the options of a job, if there is one. Rows
// that were written since are fresh rows of the index, as if they had been written while it was built. It
// returns the folder for results over these rows.
func (r *storedRows) resume(job *kind.Job, metric vector.Metric) (*checkpoint.Folder, error) {
	if job.Checkpoint == nil {
		return nil, nil
	}
	o := job.Opts.(*Options)
	input, err := json.Marshal(o)
	if err != nil {
		return nil, fail.Wrapf(err, "build")
	}
	input = fmt.Appendf(input, " %d %v %d", resumeVersion, metric, r.dim)
	for _, q := range o.TrainingQueries { // not in JSON
		input = append(input, codec.Bytes(q)...)
	}
	folder := job.Checkpoint.For(input)
	numbers, ids := make([]uint64, rowsNumbers), make([]uint32, r.n)
	found, err := folder.Load(rowsName, checkpoint.Of(&numbers), checkpoint.Of(&ids))
	if err != nil {
		return nil, fail.Wrapf(fail.System(err), "build")
	}
	if !found || len(numbers) != rowsNumbers || !r.reduce(numbers, ids) {
		numbers = make([]uint64, rowsNumbers)
		numbers[rowsCount], numbers[rowsSum] = uint64(r.n), uint64(r.sum())
		if r.ids != nil {
			numbers[rowsPartial] = 1
		}
		if err := folder.Save(rowsName, checkpoint.Of(&numbers), checkpoint.Of(&r.ids)); err != nil {
			return nil, fail.Wrapf(fail.System(err), "build")
		}
	}
	return folder.For(fmt.Append(nil, numbers)), nil
}

// reduce reduces the rows to those that were saved. It reports false, and changes nothing, if these are not
// among the rows or if many rows were written or deleted since.
func (r *storedRows) reduce(numbers []uint64, ids []uint32) bool {
	if numbers[rowsCount] < 1 || numbers[rowsCount] > uint64(r.n) {
		return false
	}
	was := &storedRows{n: int(numbers[rowsCount]), dim: r.dim}
	was.data = r.data[:was.n*r.dim]
	live := was.n
	if numbers[rowsPartial] != 0 {
		was.ids, live = ids, len(ids)
	}
	for i, row := range ids {
		if int(row) >= was.n || i > 0 && row <= ids[i-1] {
			return false
		}
	}
	old := 0 // live rows of now that were there
	for _, row := range r.ids {
		if int(row) < was.n {
			old++
		}
	}
	now := len(r.ids)
	if r.ids == nil {
		old, now = was.n, r.n
	}
	if changed := live - old + now - old; live == 0 || float64(changed) > staleShare*float64(live) ||
		uint64(was.sum()) != numbers[rowsSum] {
		return false
	}
	*r = *was
	return true
}

// sum returns a checksum of the live rows and their numbers.
func (r *storedRows) sum() uint32 {
	if r.ids == nil {
		return crc32.Checksum(codec.Bytes(r.data), castagnoli)
	}
	sum := crc32.Checksum(codec.Bytes(r.ids), castagnoli)
	for _, row := range r.ids {
		sum = crc32.Update(sum, castagnoli, codec.Bytes(r.data[int(row)*r.dim:(int(row)+1)*r.dim]))
	}
	return sum
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// saveLists saves the neighbor lists of the live rows.
func (t *training) saveLists(lists []uint32, reached float64) error {
	numbers := []uint64{math.Float64bits(reached)}
	return fail.System(t.checkpoint.Save(listsName, checkpoint.Of(&numbers), checkpoint.Of(&lists)))
}

// loadLists returns neighbor lists of k rows that were saved, nil if there are none.
func (t *training) loadLists(k int) (lists []uint32, reached float64, err error) {
	if t.checkpoint == nil {
		return nil, 0, nil
	}
	n := t.corpus.Len()
	numbers, lists := make([]uint64, 1), make([]uint32, n*k)
	found, err := t.checkpoint.Load(listsName, checkpoint.Of(&numbers), checkpoint.Of(&lists))
	if err != nil || !found || len(numbers) != 1 || len(lists) != n*k {
		return nil, 0, err
	}
	for _, id := range lists {
		if int(id) >= n {
			return nil, 0, nil
		}
	}
	reached = math.Float64frombits(numbers[0])
	if !(reached >= 0 && reached <= 1) {
		return nil, 0, nil
	}
	return lists, reached, nil
}
