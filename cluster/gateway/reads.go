package gateway

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/group"
	"github.com/anndb/anndb/internal/wire"
)

// ready answers if a replica of each shard does.
func (c *call) ready() error {
	if _, err := fetchAll[wire.Collections](c, func(s *shardlog.Shard) string {
		return file(s, "/collections")
	}); err != nil {
		return err
	}
	return c.answer(http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
}

func (c *call) files() error {
	return c.answer(http.StatusOK, wire.Files{Files: []string{c.g.name}})
}

// stats answers with the sums of what replicas say, one of each shard.
func (c *call) stats() error {
	list, err := fetchAll[wire.Stats](c, func(s *shardlog.Shard) string { return file(s, "") })
	if err != nil {
		return err
	}
	out := wire.Stats{PageSize: list[0].PageSize}
	collections, indexes := make([]wire.Collections, len(list)), make([]wire.Indexes, len(list))
	for i := range list {
		x := &list[i]
		out.FileBytes += x.FileBytes
		out.FreeBytes += x.FreeBytes
		out.LiveBytes += x.LiveBytes
		out.MapReserve += x.MapReserve
		out.Generation += x.Generation
		out.Totals.Searches += x.Totals.Searches
		out.Totals.Predictions += x.Totals.Predictions
		out.Totals.Commits += x.Totals.Commits
		out.Totals.RowsWritten += x.Totals.RowsWritten
		out.Totals.BytesWritten += x.Totals.BytesWritten
		out.Snapshots += x.Snapshots
		out.OldestSnapshot = max(out.OldestSnapshot, x.OldestSnapshot)
		out.Maintenance.Steps += x.Maintenance.Steps
		out.Maintenance.Background = out.Maintenance.Background || x.Maintenance.Background
		out.Maintenance.Working = out.Maintenance.Working || x.Maintenance.Working
		collections[i], indexes[i] = x.Collections, x.Indexes
	}
	out.Collections, out.Indexes = mergeCollections(collections), mergeIndexes(indexes)
	return c.answer(http.StatusOK, out)
}

func (c *call) collections() error {
	list, err := fetchAll[wire.Collections](c, func(s *shardlog.Shard) string { return file(s, "/collections") })
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, mergeCollections(list))
}

// mergeCollections returns the collections of all shards, without those that nodes have for themselves.
func mergeCollections(list []wire.Collections) wire.Collections {
	byName := map[string][]wire.Collection{}
	for _, shard := range list {
		for _, x := range shard.Collections {
			if !strings.HasPrefix(x.Name, ".") {
				byName[x.Name] = append(byName[x.Name], x)
			}
		}
	}
	out := wire.Collections{Collections: []wire.Collection{}}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out.Collections = append(out.Collections, mergeCollection(byName[name]))
	}
	return out
}

// mergeCollection returns the description of a collection by those of its parts.
func mergeCollection(parts []wire.Collection) wire.Collection {
	out := parts[0]
	for _, x := range parts[1:] {
		out.Live += x.Live
		out.Rows += x.Rows
		out.Sealed += x.Sealed
		out.Features = max(out.Features, x.Features)
		out.Indexes = union(out.Indexes, x.Indexes)
		out.Attributes = union(out.Attributes, x.Attributes)
		out.Expires = out.Expires || x.Expires
		for label, n := range x.Labels {
			if out.Labels == nil {
				out.Labels = map[string]int{}
			}
			out.Labels[label] += n
		}
	}
	return out
}

// union returns the elements of both lists, those of the first one first.
func union(a, b []string) []string {
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(slices.Clip(a), x)
		}
	}
	return a
}

// mergeIndexes returns the indexes of all shards.
func mergeIndexes(list []wire.Indexes) wire.Indexes {
	type name struct{ collection, index string }
	out := wire.Indexes{Indexes: []wire.Index{}}
	at := map[name]int{}
	for _, shard := range list {
		for _, x := range shard.Indexes {
			n := name{x.Collection, x.Name}
			i, known := at[n]
			if !known {
				at[n] = len(out.Indexes)
				out.Indexes = append(out.Indexes, x)
				continue
			}
			sum := &out.Indexes[i]
			sum.Rows += x.Rows
			sum.Fresh += x.Fresh
			sum.Relabelled += x.Relabelled
			sum.Segments = max(sum.Segments, x.Segments)
			sum.TrainingPoints += x.TrainingPoints
			sum.BuildMemory += x.BuildMemory
			for part, n := range x.Bytes {
				sum.Bytes[part] += n
			}
			for part, seconds := range x.BuildSeconds {
				sum.BuildSeconds[part] = max(sum.BuildSeconds[part], seconds)
			}
			if sum.Error == "" {
				sum.Error = x.Error
			}
		}
	}
	return out
}

func (c *call) describe() error {
	list, err := c.described()
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, mergeCollection(list))
}

// described returns what the shards say of the collection of the path.
func (c *call) described() ([]wire.Collection, error) {
	if err := c.checkName(); err != nil {
		return nil, err
	}
	return fetchAll[wire.Collection](c, func(s *shardlog.Shard) string { return c.coll(s, "") })
}

// checkName refuses the collections that nodes have for themselves.
func (c *call) checkName() error {
	if strings.HasPrefix(c.name(), ".") {
		return fmt.Errorf("%w: collection %q", db.ErrNotFound, c.name())
	}
	return nil
}

func (c *call) indexes() error {
	list, err := c.indexesOf()
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, list)
}

func (c *call) indexesOf() (wire.Indexes, error) {
	list, err := fetchAll[wire.Indexes](c, func(s *shardlog.Shard) string { return c.coll(s, "/indexes") })
	if err != nil {
		return wire.Indexes{}, err
	}
	return mergeIndexes(list), nil
}

// row answers with a row.
func (c *call) row() error {
	if err := c.checkName(); err != nil {
		return err
	}
	key := []byte(c.r.PathValue("key"))
	s := c.view.Find(key)
	q := &question{kind: "row", method: http.MethodGet, path: c.coll(s, "/rows/"+wire.PathKey(key))}
	if tag := c.r.Header.Get("If-None-Match"); tag != "" {
		q.header = http.Header{"If-None-Match": {tag}}
	}
	answer, err := c.ask(s, q)
	if err != nil {
		return err
	}
	c.w.Header().Set("ETag", answer.header.Get("ETag"))
	if answer.status == http.StatusNotModified {
		c.mark()
		c.w.WriteHeader(answer.status)
		return nil
	}
	c.write(http.StatusOK, wire.JSON, answer.body)
	return nil
}

// count answers with the number of rows that pass a filter.
func (c *call) count() error {
	var in wire.Count
	if err := c.decode(&in); err != nil {
		return err
	}
	where, err := wire.Where(in.Where)
	if err != nil {
		return err
	}
	var out wire.Counted
	err = c.grouped(where, func(g *group.Group) (err error) {
		out.Rows, err = g.Count(c.ctx, where)
		return err
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, out)
}

// export sends the rows that pass a filter, those of one shard after the other.
func (c *call) export() error {
	if err := c.checkName(); err != nil {
		return err
	}
	left := -1
	values := c.r.URL.Query()
	if limit := values.Get("limit"); limit != "" {
		var err error
		if left, err = strconv.Atoi(limit); err != nil || left < 1 {
			return fmt.Errorf("%w: limit=%.20q, want 1 or more rows", db.ErrInvalid, limit)
		}
	}
	for i := range c.view.Shards {
		if left == 0 {
			break
		}
		if left > 0 {
			values.Set("limit", strconv.Itoa(left))
		}
		n, err := c.exportShard(&c.view.Shards[i], values)
		if err != nil {
			return err
		}
		left = max(-1, left-n)
	}
	c.begin()
	return nil
}

// begin begins a stream of rows.
func (c *call) begin() {
	if !c.begun {
		c.mark()
		c.w.Header().Set("Content-Type", wire.Lines)
		c.w.WriteHeader(http.StatusOK)
		c.begun = true
	}
}

// exportShard sends the rows of a shard, and returns their number.
func (c *call) exportShard(s *shardlog.Shard, values url.Values) (n int, err error) {
	q := &question{method: http.MethodGet, path: c.coll(s, "/rows?"+values.Encode())}
	var answer *http.Response
	err = fmt.Errorf("%w: shard %s has no replica with an address", wire.ErrUnavailable, s.ID)
	for _, node := range c.replicas(s, false) {
		if answer, err = c.open(c.ctx, s, node, q); err == nil || !elsewhere(err) {
			break
		}
		c.g.slow.mark(node)
	}
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	lines := bufio.NewReaderSize(answer.Body, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return n, nil
		}
		if err != nil && err != bufio.ErrBufferFull {
			return n, fmt.Errorf("%w: shard %s: %w", wire.ErrUnavailable, s.ID, err)
		}
		c.begin()
		if _, err := c.w.Write(line); err != nil {
			return n, err
		}
		if err == nil {
			n++
		}
	}
}
