package server

import (
	"embed"
	"net/http"
	"path"

	"github.com/anndb/anndb/internal/report"
	"github.com/anndb/anndb/internal/wire"
)

//go:embed page
var pageFiles embed.FS

// policy lets the page load its own files and nothing else, and no other site show it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageTypes are the types of the files by their endings; those of the system may be others.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// page sends a file of the page.
func page(c *call) error {
	name := c.r.PathValue("name")
	if name == "" {
		name = "index.html"
	}
	content, err := pageFiles.ReadFile(path.Join("page", name))
	if err != nil {
		return wire.ErrRoute
	}
	h := c.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	c.send(http.StatusOK, pageTypes[path.Ext(name)], content)
	return nil
}

// showMap answers with places of rows in the plane.
func showMap(c *call) (any, error) {
	info, err := c.coll.Info()
	if err != nil {
		return nil, err
	}
	places, err := report.Map(c.ctx, c.coll, info)
	out := wire.Map{Rows: make([]wire.Place, len(places))}
	for i, p := range places {
		out.Rows[i] = wire.Place{Key: wire.NewKey(p.Key), Label: p.Label, X: float32(p.X), Y: float32(p.Y)}
	}
	return out, err
}

// showRecall sends a picture of the recall and the time of the settings of tuned indexes.
func showRecall(c *call) error {
	list, err := c.coll.Indexes()
	if err != nil {
		return err
	}
	picture, err := report.Recall(c.coll.Name(), list...)
	if err != nil {
		return err
	}
	if picture == nil {
		return wire.ErrRoute
	}
	c.send(http.StatusOK, "image/svg+xml", picture)
	return nil
}
