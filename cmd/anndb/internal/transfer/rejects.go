package transfer

import (
	"fmt"
	"os"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/dataset"
)

// shownRejects is how many of the records that are left out are reported one by one.
const shownRejects = 5

// rejects counts the records that are left out, and adds their places and faults to a file, which is made
// for the first.
type rejects struct {
	path string // of the file; empty for none
	app  *command.App
	file *os.File
	n    int
}

func (r *rejects) add(fault *dataset.FormatError) (err error) {
	text := r.app.Program.Host.Message(command.Message(fault))
	if r.n++; r.n <= shownRejects {
		r.app.Note("left out: %s", text)
	}
	if r.path == "" {
		return nil
	}
	if r.file == nil {
		if r.file, err = os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(r.file, text)
	return err
}

// close reports how many records were left out.
func (r *rejects) close() error {
	if r.n > 0 {
		r.app.Note("records left out: %d", r.n)
	}
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
