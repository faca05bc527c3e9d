package file

import (
	"regexp"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db/rescue"
	"github.com/anndb/anndb/internal/table"
)

// lostRows lists the rows that could not be saved, with one entry for those that are lost for one reason,
// and for adjacent ones that only differ in the chunk: what is missing at the end of a file are many.
type lostRows struct{ runs []lostRun }

type lostRun struct {
	collection, reason string
	row                uint32
	rows               int
	firstKey, lastKey  string
}

// chunkNumber is the part of a reason that names a chunk.
var chunkNumber = regexp.MustCompile(`chunk \d+`)

// add adds a row or a range of rows.
func (l *lostRows) add(r rescue.LostRow) {
	reason, key := command.Message(r.Err), string(r.Key)
	if n := len(l.runs); n > 0 {
		last := &l.runs[n-1]
		adjacent := last.row+uint32(last.rows) == r.Row &&
			chunkNumber.ReplaceAllString(last.reason, "") == chunkNumber.ReplaceAllString(reason, "")
		if last.collection == r.Collection && (adjacent || last.reason == reason) {
			last.rows, last.lastKey = last.rows+int(r.Rows), key
			return
		}
	}
	l.runs = append(l.runs, lostRun{r.Collection, reason, r.Row, int(r.Rows), key, key})
}

// table has a line for each entry.
func (l *lostRows) table() *table.Table {
	t := table.New("collection", "row", "rows", "key", "error")
	for _, r := range l.runs {
		key := r.firstKey
		if r.lastKey != key {
			key += " … " + r.lastKey
		}
		t.Add(r.collection, r.row, r.rows, key, r.reason)
	}
	return t
}
