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
	db     string             // its name
	info   *db.CollectionInfo // nil for list without a collection
	state  state
	rows   reads
	writes writes // of put and delete, which have no state
}

// where is the collection that a call names.
type where struct {
	Collection string `json:"collection,omitempty"`
}

func (w where) collection() string { return w.Collection }

// New returns a server of the tools of a database, with those that write if write is set.
func New(d Database, version string, write bool) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "anndb", Version: version},
		&mcp.ServerOptions{Instructions: instructions, Capabilities: &mcp.ServerCapabilities{}})
	add(s, d, "list", listText, false, list)
	add(s, d, "search", searchText, false, search)
	add(s, d, "rows", rowsText, false, rows)
	add(s, d, "get", getText, false, get)
	add(s, d, "predict", predText, false, predict)
	add(s, d, "explain", explText, false, explainAnswer)
	if write {
		add(s, d, "put", putText, true, put)
		add(s, d, "delete", delText, true, deleteRows)
	}
	return s
}

// add adds a tool. One that writes runs in a transaction, of which the state is not read.
func add[In interface{ collection() string }, Out any](
	s *mcp.Server, d Database, name, text string, change bool, answer func(*call, *In) (Out, error),
) {
	no := false
	t := &mcp.Tool{
		Name: name, Description: text, InputSchema: schemaOf[In](), OutputSchema: schemaOf[Out](),
		Annotations: &mcp.ToolAnnotations{
			ReadOnlyHint: !change, DestructiveHint: &change, IdempotentHint: true, OpenWorldHint: &no,
		},
	}
	mcp.AddTool(s, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (
		_ *mcp.CallToolResult, out Out, err error,
	) {
		c := call{Context: ctx, db: d.name()}
		err = d.read(ctx, func(s state) (err error) {
			if c.info, err = find(ctx, s, in.collection(), name == "list"); err != nil || change {
				return err
			}
			if c.state = s; c.info != nil {
				c.rows = s.Collection(c.info.Name)
			}
			out, err = answer(&c, &in)
			return err
		})
		if err == nil && change {
			err = d.update(ctx, c.info.Name, func(w writes) (err error) {
				c.writes = w
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
func find(ctx context.Context, s state, name string, all bool) (*db.CollectionInfo, error) {
	infos, err := s.Collections(ctx)
	switch {
	case err != nil:
		return nil, err
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
var goOnly = regexp.MustCompile(`(^|: )(db: |bad option: |invalid argument: JSON: row: malformed file: )+`)

// message is the text of an error as a model reads it.
func message(err error) string {
	text := goOnly.ReplaceAllString(err.Error(), "$1")
	if at, ok := errors.AsType[*filter.Error](err); ok {
		text += "\n" + at.Caret() + filters
	}
	return text
}
