package damage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/torture/internal/ask"
)

// Outcomes of a piece of damage.
const (
	Right     = "right answers"
	OpenError = "error at opening"
	UseError  = "error at use"
	Wrong     = "WRONG ANSWER"
	Untyped   = "UNTYPED ERROR"
	Nameless  = "ERROR WITHOUT A PLACE"
	Missed    = "NOT FOUND BY CHECK"
	Died      = "DIED"
	Hung      = "HUNG"
)

// Sheet is what a child needs to know of the sound file: what there is to ask
// and the digests of the right answers.
type Sheet struct {
	Collections []ask.Collection
	Answers     []uint64
}

// options are those that children open files with.
func options() *db.Options {
	return &db.Options{ReadOnly: true, MapReserve: 1 << 30, CloseTimeout: time.Second}
}

// NewSheet asks the sound file everything, in a process of its own kind.
func NewSheet(path string, seed uint64) (*Sheet, error) {
	d, err := db.Open(context.Background(), path, options())
	if err != nil {
		return nil, err
	}
	s := &Sheet{}
	err = d.View(func(v *db.Snapshot) error {
		if s.Collections, err = ask.Describe(v, seed, 20, 7, 1); err != nil {
			return err
		}
		for _, q := range ask.Questions(s.Collections) {
			a, err := q.Ask(v)
			if err != nil {
				return fmt.Errorf("%s: %w", q.Name, err)
			}
			s.Answers = append(s.Answers, a.Digest)
		}
		return nil
	})
	return s, errors.Join(err, d.Close())
}

// Write stores the sheet.
func (s *Sheet) Write(path string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// Verdict is what a child says.
type Verdict struct {
	Outcome, Detail string
	// Checked says whether Check, or opening, found the damage.
	Checked bool
	// Asked counts the questions that were asked, Failed those that were
	// answered by an error.
	Asked, Failed int
}

// Child opens a damaged file and asks it everything: the arguments are the
// sheet, the file and, where it is to be cut short while it is open, the length
// to cut it to. It prints a Verdict.
func Child(args []string) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: ownLimit, Max: ownLimit + 2}); err != nil {
		return err
	}
	var sheet Sheet
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &sheet); err != nil {
		return err
	}
	cut := int64(-1)
	if len(args) > 2 {
		if cut, err = strconv.ParseInt(args[2], 10, 64); err != nil {
			return err
		}
	}
	v := sheet.judge(args[1], cut)
	return json.NewEncoder(os.Stdout).Encode(v)
}

func (s *Sheet) judge(path string, cut int64) (v Verdict) {
	d, err := db.Open(context.Background(), path, options())
	if err != nil {
		v.Outcome, v.Detail, v.Checked = OpenError, err.Error(), true
		if bad := classify(err, true); bad != "" {
			v.Outcome = bad
		}
		return v
	}
	v.Outcome = Right
	note := func(what string, err error) {
		v.Failed++
		if bad := classify(err, false); bad != "" {
			v.Outcome, v.Detail = bad, what+": "+err.Error()
		} else if v.Outcome == Right {
			v.Outcome, v.Detail = UseError, what+": "+err.Error()
		}
	}
	err = d.View(func(snap *db.Snapshot) error {
		questions := ask.Questions(s.Collections)
		for i, q := range questions {
			if i == len(questions)/2 && cut >= 0 {
				if err := os.Truncate(path, cut); err != nil {
					return err
				}
			}
			a, err := q.Ask(snap)
			v.Asked++
			switch {
			case err != nil:
				note(q.Name, err)
			case a.Digest != s.Answers[i]:
				v.Outcome, v.Detail = Wrong, q.Name+": "+a.Text
				return nil
			}
		}
		return nil
	})
	if err != nil {
		note("snapshot", err)
	}
	place := false
	err = d.Check(context.Background(), func(p *db.CorruptError) {
		place = place || p.Offset >= 0 || p.Object != 0 || p.Collection != ""
	}, nil)
	if err != nil {
		v.Checked = true
		if bad := classify(err, true); bad != "" && v.Outcome != Wrong {
			v.Outcome, v.Detail = bad, "check: "+err.Error()
		} else if !place && cut < 0 && v.Outcome != Wrong {
			v.Outcome, v.Detail = Nameless, "check: "+err.Error()
		}
	}
	if err := d.Close(); err != nil {
		v.Outcome, v.Detail = Untyped, "close: "+err.Error()
	}
	return v
}

// classify says what is wrong with an error as a report of damage: nothing, or
// that it has not its type, or names no place. Errors of a whole file name the
// file.
func classify(err error, whole bool) string {
	if !errors.Is(err, db.ErrCorrupt) && !errors.Is(err, db.ErrNotDatabase) {
		return Untyped
	}
	var c *db.CorruptError
	if errors.As(err, &c) && c.Offset < 0 && c.Object == 0 && c.Collection == "" && !whole {
		return Nameless
	}
	return ""
}
