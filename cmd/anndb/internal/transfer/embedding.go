package transfer

import (
	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/db"
)

// embedding adds vectors to the texts of an import; the zero value does nothing.
type embedding struct {
	by *input.Embedder
	// schema is that of a new collection but for its dimension.
	schema db.Schema
}

// rows adds a vector to each row that has a text and no vector. The first ones give a new collection its
// dimension.
func (e *embedding) rows(r *batchReader, rows []db.Row) error {
	if e.by == nil || len(rows) == 0 {
		return nil
	}
	dim, err := e.by.Fill(len(rows), func(i int) (string, *[]float32) { return rows[i].Text, &rows[i].Vector })
	if err != nil {
		return err
	}
	if r.into.Dim == 0 && dim > 0 {
		r.into.Schema = e.schema
		r.into.Dim, e.by.Dim = dim, dim
	}
	if r.into.Dim == 0 {
		return command.BadInput("the first %d records have no text for --embed, so there is no dimension",
			len(rows))
	}
	return nil
}
