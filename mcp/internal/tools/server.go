// Package tools offers a database to language models as tools of the Model Context Protocol.
package tools

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
)

// call is the collection of a call in one state of the database.
type call struct {
	context.Context
	file   string
	state  *db.Snapshot
	info   *db.CollectionInfo // nil for list without a collection
	rows   db.Collection
	writes db.TxCollection // of put and delete, which have no state
}

// where is the collection that a call names.
type where struct {
	Collection string `json:"collection,omitempty"`
}

func (w where) collection() string { return w.Collection }

// New returns a server of the tools of a database, with those that write if write is set.
func New(f *File, version string, write bool) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "anndb", Version: version},
		&mcp.ServerOptions{Instructions: instructions, Capabilities: &mcp.ServerCapabilities{}})
	add(s, f, "list", listText, false, list)
	add(s, f, "search", searchText, false, search)
	add(s, f, "rows", rowsText, false, rows)
	add(s, f, "get", getText, false, get)
	add(s, f, "predict", predText, false, predict)
	add(s, f, "explain", explText, false, explainAnswer)
	if write {
		add(s, f, "put", putText, true, put)
		add(s, f, "delete", delText, true, deleteRows)
	}
	return s
}

// add adds a tool. One that writes runs in a transaction, of which the state is not read.
func add[In interface{ collection() string }, Out any](
	s *mcp.Server, f *File, name, text string, writes bool, answer func(*call, *In) (Out, error),
) {
	no := false
	t := &mcp.Tool{
		Name: name, Description: text, InputSchema: schemaOf[In](), OutputSchema: schemaOf[Out](),
		Annotations: &mcp.ToolAnnotations{
			ReadOnlyHint: !writes, DestructiveHint: &writes, IdempotentHint: true, OpenWorldHint: &no,
		},
	}
	mcp.AddTool(s, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (
		_ *mcp.CallToolResult, out Out, err error,
	) {
		c := call{Context: ctx, file: f.path}
		err = f.read(ctx, func(state *db.Snapshot) (err error) {
			if c.info, err = find(state, in.collection(), name == "list"); err != nil || writes {
				return err
			}
			if c.state = state; c.info != nil {
				c.rows = state.Collection(c.info.Name)
			}
			out, err = answer(&c, &in)
			return err
		})
		if err == nil && writes {
			err = f.update(ctx, func(tx *db.Tx) (err error) {
				c.writes = tx.Collection(c.info.Name)
				out, err = answer(&c, &in)
				return err
			})
		}
		if err != nil {
			err = errors.New(message(err))
		}
		return nil, out, err
	})
}

// find describes the collection with a name. Without a name it is the only one, or nil for all if that is
// possible.
func find(state *db.Snapshot, name string, all bool) (*db.CollectionInfo, error) {
	infos := state.Collections()
	switch {
	case name == "" && all:
		return nil, nil
	case name == "" && len(infos) == 1:
		return &infos[0], nil
	case len(infos) == 0:
		return nil, errors.New("the database has no collections; the user makes one by anndb create or import")
	}
	names := make([]string, len(infos))
	for i := range infos {
		if names[i] = infos[i].Name; names[i] == name {
			return &infos[i], nil
		}
	}
	return nil, fmt.Errorf("there is no collection %q; collection is one of: %s", name,
		part(strings.Join(names, ", "), 0, mostText))
}

// goOnly matches what the library says to Go programs only.
var goOnly = regexp.MustCompile(`(^|: )(db: |bad option: )+`)

// message is the text of an error as a model reads it.
func message(err error) string {
	text := goOnly.ReplaceAllString(err.Error(), "$1")
	if at, ok := errors.AsType[*filter.Error](err); ok {
		text += "\n" + at.Caret() + filters
	}
	return text
}
