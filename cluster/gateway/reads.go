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
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/server"
)

// ready answers if a replica of each shard does.
func (c *call) ready() (any, error) {
	_, err := c.collectionsOf()
	return map[string]string{"status": "ok"}, err
}

func (c *call) files() (any, error) { return wire.Files{Files: []string{c.g.name}}, nil }

// stats answers with the sums of what replicas say, one of each shard.
func (c *call) stats() (any, error) {
	list, err := fetchAll[db.Stats](c, func(s *shardlog.Shard) string { return file(s, "") })
	if err != nil {
		return nil, err
	}
	var out db.Stats
	out.PageSize = list[0].PageSize
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
		collections[i].Collections, indexes[i].Indexes = x.Collections, x.Indexes
	}
	out.Collections, out.Indexes = mergeCollections(collections).Collections, mergeIndexes(indexes).Indexes
	return out, nil
}

// collectionsOf returns the collections of the shards.
func (c *call) collectionsOf() ([]wire.Collections, error) {
	return fetchAll[wire.Collections](c, func(s *shardlog.Shard) string { return file(s, "/collections") })
}

func (c *call) collections() (any, error) {
	list, err := c.collectionsOf()
	return mergeCollections(list), err
}

// mergeCollections returns the collections of all shards, without those that nodes have for themselves.
func mergeCollections(list []wire.Collections) wire.Collections {
	byName := map[string][]wire.Collection{}
	for _, shard := range list {
		for _, x := range shard.Collections {
			if !strings.HasPrefix(x.Name, ".") {
				byName[x.Name] = append(byName[x.Name], wire.Collection{CollectionInfo: x})
			}
		}
	}
	out := wire.Collections{Collections: []db.CollectionInfo{}}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out.Collections = append(out.Collections, mergeCollection(byName[name]).CollectionInfo)
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
	out := wire.Indexes{Indexes: []index.Info{}}
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

func (c *call) describe() (any, error) { return c.described() }

// described returns what the shards say of the collection of the path.
func (c *call) described() (out wire.Collection, err error) {
	list, err := fetchAll[wire.Collection](c, func(s *shardlog.Shard) string { return c.coll(s, "") })
	if err == nil {
		out = mergeCollection(list)
	}
	return out, err
}

func (c *call) indexes() (any, error) { return c.indexesOf() }

func (c *call) indexesOf() (wire.Indexes, error) {
	list, err := fetchAll[wire.Indexes](c, func(s *shardlog.Shard) string { return c.coll(s, "/indexes") })
	return mergeIndexes(list), err
}

// row answers with a row.
func (c *call) row() (any, error) {
	key := []byte(c.r.PathValue("key"))
	s := c.view.Find(key)
	q := &question{kind: "row", method: http.MethodGet, path: c.coll(s, "/rows/"+wire.PathKey(key))}
	if tag := c.r.Header.Get("If-None-Match"); tag != "" {
		q.header = http.Header{"If-None-Match": {tag}}
	}
	answer, err := c.ask(s, q)
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("ETag", answer.header.Get("ETag"))
	if answer.status == http.StatusNotModified {
		return server.Answer{Status: answer.status}, nil
	}
	return answer.body, nil
}

// count answers with the number of rows that pass a filter.
func (c *call) count() (any, error) {
	var in wire.Count
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	where, err := wire.Where(in.Where)
	if err != nil {
		return nil, err
	}
	var out wire.Counted
	err = c.grouped(where, func(g *group.Group) (err error) {
		out.Rows, err = g.Count(c.ctx, where)
		return err
	})
	return out, err
}

// export sends the rows that pass a filter, those of one shard after the other.
func (c *call) export() (any, error) {
	left := -1
	values := c.r.URL.Query()
	if limit := values.Get("limit"); limit != "" {
		var err error
		if left, err = strconv.Atoi(limit); err != nil || left < 1 {
			return nil, fmt.Errorf("%w: limit=%.20q, want 1 or more rows", db.ErrInvalid, limit)
		}
	}
	for i := 0; i < len(c.view.Shards) && left != 0; i++ {
		if left > 0 {
			values.Set("limit", strconv.Itoa(left))
		}
		n, err := c.exportShard(&c.view.Shards[i], values)
		if err != nil {
			return nil, err
		}
		left = max(-1, left-n)
	}
	c.begin()
	return nil, nil
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
