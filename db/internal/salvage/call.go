package salvage

import "context"

// Options selects how Salvage works: the fields of rescue.Options.
type Options struct {
	Lost      func(LostRow)
	NoIndexes bool
	Workers   int
	Progress  func(stage string, done, total int)
	Stop      <-chan struct{}
}

// Report is the result of Salvage: the fields of rescue.Report.
type Report struct {
	Rows, Lost int
	Indexes    []string
	NotBuilt   map[string]error
	Revived    []string
	Searched   error
}

// Salvage is rescue.Salvage. Package db, which writes the new database, sets it.
var Salvage func(ctx context.Context, from, to string, o Options) (Report, error)
