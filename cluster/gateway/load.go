package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

const (
	// batchBytes and batchRows bound the rows of a transaction of an import. The servers of the log bound
	// it, too.
	batchBytes = 4 << 20
	batchRows  = 1024
	// batchesAtOnce is the number of transactions of a shard that the log has and that may not be applied.
	batchesAtOnce = 8
	maxLine       = 16 << 20
)

// load stores rows as they arrive, in transactions of many rows of a shard. Of a body that is bad or ends too
// early, the rows before the error may be stored, which the answer counts.
func (c *call) load() (any, error) {
	if t := c.r.Header.Get("Content-Type"); t != wire.Lines && t != "application/jsonl" {
		return nil, fmt.Errorf("%w: %.100q, want %s", wire.ErrType, t, wire.Lines)
	}
	op := wire.Put
	insert, err := c.flag("insert")
	if err != nil {
		return nil, err
	}
	if insert {
		op = wire.Insert
	}
	info, err := c.info(c.name())
	if err != nil {
		return nil, err
	}
	l := &loader{c: c, op: op, info: &info, shards: map[string]*shardLoad{}}
	l.most = min(batchBytes, c.g.cluster.MaxMessage()/8*7) // what cannot be compressed becomes a little longer
	err = l.read()
	rows, storeErr := l.end()
	if err = cmp.Or(err, storeErr); err != nil {
		e := wire.NewError(err)
		e.Rows = rows
		return nil, e
	}
	return wire.Loaded{Rows: rows}, nil
}

// loader stores the rows of an import.
type loader struct {
	c      *call
	op     string
	info   *db.CollectionInfo
	most   int // bytes of a transaction
	shards map[string]*shardLoad
	all    []*shardLoad
}

// shardLoad stores the rows of a shard, in their order.
type shardLoad struct {
	batch   wire.Transaction
	bytes   int
	batches chan wire.Transaction
	done    chan struct{}
	waiting []pending
	rows    int // stored
	err     error
}

// read reads rows until the end of the body, or an error.
func (l *loader) read() error {
	lines := bufio.NewReaderSize(l.c.r.Body, 64<<10)
	for n := 0; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if len(line) > maxLine {
			return fmt.Errorf("%w: row %d has %d bytes", wire.ErrTooLarge, n, len(line))
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := l.add(n, line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// add adds a row to the next transaction of its shard.
func (l *loader) add(n int, line []byte) error {
	o := wire.Operation{Op: l.op, Collection: l.info.Name, Row: line}
	key, err := checkOperation(&o, l.info)
	if err != nil {
		return fmt.Errorf("row %d: %w", n, err)
	}
	o.Key = wire.NewKey(key)
	s := l.of(l.c.view.Find(key))
	size := len(line) + 2*len(key) + 64 // at most, of its part of a message
	if s.bytes > 0 && s.bytes+size > l.most || len(s.batch.Operations) == batchRows {
		if err := l.flush(s); err != nil {
			return err
		}
	}
	s.batch.Operations = append(s.batch.Operations, o)
	s.bytes += size
	return nil
}

// of returns what stores the rows of a shard.
func (l *loader) of(shard *shardlog.Shard) *shardLoad {
	s := l.shards[shard.ID]
	if s == nil {
		s = &shardLoad{batches: make(chan wire.Transaction, 1), done: make(chan struct{})}
		l.shards[shard.ID] = s
		l.all = append(l.all, s)
		go s.store(l.c, shard)
	}
	return s
}

// flush hands over the next transaction of a shard, unless storing has failed.
func (l *loader) flush(s *shardLoad) error {
	select {
	case s.batches <- s.batch:
		s.batch, s.bytes = wire.Transaction{}, 0
		return nil
	case <-s.done:
		return s.err
	}
}

// end stores what is left, and returns the number of rows that are stored and the first error.
func (l *loader) end() (rows int, err error) {
	for _, s := range l.all {
		if len(s.batch.Operations) > 0 {
			_ = l.flush(s)
		}
		close(s.batches)
	}
	for _, s := range l.all {
		<-s.done
		rows += s.rows
		err = errors.Join(err, s.err)
	}
	return rows, err
}

// pending is a transaction that a log has.
type pending struct {
	shard *shardlog.Shard
	n     uint64
	rows  int
}

// store stores the transactions of a shard until there are no more, or one fails.
func (s *shardLoad) store(c *call, shard *shardlog.Shard) {
	defer close(s.done)
	v := c.view
	for batch := range s.batches {
		for rest := batch.Operations; len(rest) > 0 && s.err == nil; {
			batch.Operations = rest
			if v != c.view { // the shard has been split, perhaps
				shard, batch.Operations, rest = divide(v, rest)
			} else {
				rest = nil
			}
			n, err := c.publish(shard, rand.Text(), &shardlog.Message{Transaction: &batch})
			switch {
			case errors.Is(err, shardlog.ErrSealed):
				rest = append(batch.Operations, rest...)
				s.settle(c, 0)
				v, err = c.again(shard)
				s.err = cmp.Or(s.err, err)
			case err != nil:
				s.err = err
			default:
				s.waiting = append(s.waiting, pending{shard, n, len(batch.Operations)})
				s.settle(c, batchesAtOnce)
			}
		}
		if s.err != nil {
			break
		}
	}
	s.settle(c, 0)
}

// settle waits until at most some of the transactions are not applied.
func (s *shardLoad) settle(c *call, left int) {
	for len(s.waiting) > left {
		p := s.waiting[0]
		s.waiting = s.waiting[1:]
		_, err := c.applied(p.shard, p.n)
		if err == nil {
			s.rows += p.rows
		}
		s.err = cmp.Or(s.err, err)
	}
}

// divide returns the shard that has the row of the first operation, the operations of its rows, and the
// others.
func divide(v *view, all []wire.Operation) (shard *shardlog.Shard, its, rest []wire.Operation) {
	for _, o := range all {
		key, _ := o.Key.Get() // which is one that add has made
		if shard == nil {
			shard = v.Find(key)
		}
		if shard.Owns(key) {
			its = append(its, o)
		} else {
			rest = append(rest, o)
		}
	}
	return shard, its, rest
}
