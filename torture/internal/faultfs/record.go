package faultfs

// Kind is a kind of change.
type Kind int

// The kinds. Create, Link, Unlink and Rename change the directory, which
// SyncDir makes durable; Write and Truncate change a file, which Sync does.
const (
	Create Kind = iota
	Link
	Unlink
	Rename
	SyncDir
	Write
	Truncate
	Sync
	Mark
)

// Op is a change or a barrier, in the order in which they were asked for.
type Op struct {
	Kind Kind
	File int    // the number of the file, names or not
	Name string // of Create, Link, Unlink, Rename, Mark
	To   string // of Rename
	Off  int64  // of Write; the size, of Truncate
	Data []byte // of Write
}

// Record begins a record and returns the numbers of the files there are.
func (f *FS) Record() (map[string]int, error) {
	names, err := f.names()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record, f.on = nil, true
	return names, err
}

// Recorded ends the record and returns it.
func (f *FS) Recorded() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = false
	return f.record
}

func (f *FS) add(op Op) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.on {
		f.record = append(f.record, op)
	}
}
