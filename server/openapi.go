package server

import (
	_ "embed"
	"net/http"

	"github.com/anndb/anndb/internal/wire"
)

// openapi describes the routes.
//
//go:embed openapi.json
var openapi []byte

func openAPI(c *call) error {
	c.send(http.StatusOK, wire.JSON, openapi)
	return nil
}
