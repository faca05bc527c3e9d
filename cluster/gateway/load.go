package gateway

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

const (
	// batchBytes and batchRows bound the rows of a transaction of an import. The servers of the log bound it, too.
	batchBytes = 4 << 20
	batchRows  = 1024
	// batchesAtOnce is the number of transactions of a shard that the log has and that may not be applied.
	batchesAtOnce = 8
	maxLine       = 16 << 20
)

// load stores rows as they arrive, in transactions of many rows of a shard. Of a body that is bad or ends too
// early, the rows before the error may be stored, which the answer counts.
func (c *call) load() error {
	if t := c.r.Header.Get("Content-Type"); t != wire.Lines && t != "application/jsonl" {
		return fmt.Errorf("%w: %.100q, want %s", wire.ErrType, t, wire.Lines)
	}
	op := wire.Put
	insert, err := c.flag("insert")
	if err != nil {
		return err
	}
	if insert {
		op = wire.Insert
	}
	info, err := c.info(c.name())
	if err != nil {
		return err
	}
	l := &loader{c: c, op: op, info: &info, shards: map[string]*shardLoad{}}
	l.most = min(batchBytes, c.g.cluster.MaxMessage()/8*7) // what cannot be compressed becomes a little longer
	err = l.read()
	rows, storeErr := l.end()
	if err == nil {
		err = storeErr
	}
	if err != nil {
		e := wire.NewError(err)
		e.Rows = rows
		return e
	}
	return c.answer(http.StatusOK, wire.Loaded{Rows: rows})
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
	n    uint64
	rows int
}

// store stores the transactions of a shard until there are no more, or one fails.
func (s *shardLoad) store(c *call, shard *shardlog.Shard) {
	defer close(s.done)
	var waiting []pending
	settle := func(left int) {
		for len(waiting) > left {
			p := waiting[0]
			waiting = waiting[1:]
			_, err := c.applied(shard, p.n)
			if err == nil {
				s.rows += p.rows
			} else if s.err == nil {
				s.err = err
			}
		}
	}
	for batch := range s.batches {
		n, err := c.publish(shard, rand.Text(), &shardlog.Message{Transaction: &batch})
		if errors.Is(err, shardlog.ErrSealed) {
			if settle(0); s.err == nil {
				s.err = s.storeElsewhere(c, batch.Operations)
			}
			if s.err != nil {
				break
			}
			continue
		}
		if err != nil {
			s.err = err
			break
		}
		waiting = append(waiting, pending{n, len(batch.Operations)})
		if settle(batchesAtOnce); s.err != nil {
			break
		}
	}
	settle(0)
}

// storeElsewhere stores rows of a shard that was split, those of a new shard after the other.
func (s *shardLoad) storeElsewhere(c *call, operations []wire.Operation) error {
	for len(operations) > 0 {
		if err := pause(c.ctx, retryTime); err != nil {
			return err
		}
		v, err := c.g.read(c.ctx, true)
		if err != nil {
			return err
		}
		var batch wire.Transaction
		var rest []wire.Operation
		var shard *shardlog.Shard
		for _, o := range operations {
			key, err := o.Key.Get()
			if err != nil {
				return err
			}
			at := v.Find(key)
			if shard == nil {
				shard = at
			}
			if at == shard {
				batch.Operations = append(batch.Operations, o)
			} else {
				rest = append(rest, o)
			}
		}
		n, err := c.publish(shard, rand.Text(), &shardlog.Message{Transaction: &batch})
		if errors.Is(err, shardlog.ErrSealed) {
			continue
		}
		if err == nil {
			_, err = c.applied(shard, n)
		}
		if err != nil {
			return err
		}
		s.rows += len(batch.Operations)
		operations = rest
	}
	return nil
}
