package shardlog

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Entry is a message of a log.
type Entry struct {
	Message

	Sequence uint64
	Mark     Mark
	Size     int // in bytes, decompressed
	// Err is ErrFormat or ErrCorrupt if the entry is none that this version can apply. With ErrCorrupt,
	// Foreign reports whether another program has written it.
	Err     error
	Foreign bool
}

// Mark is what tells an entry from another one with its number, in another log: when the server stored it, in
// nanoseconds, and the checksum (CRC-32C) of its bytes.
type Mark struct {
	Time int64  `json:"time"`
	Sum  uint32 `json:"sum"`
}

func newMark(at time.Time, data []byte) Mark { return Mark{at.UnixNano(), sum(data)} }

func sum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }

// Headers of messages: the version of their form, and the checksum of their bytes.
const (
	formatHeader = "Anndb-Format"
	sumHeader    = "Anndb-Sum"
	format       = "1"
)

// stream returns the name of the stream and of its subject.
func (c *Cluster) stream(s *Shard) string { return c.store("_" + s.ID + "_" + strconv.Itoa(s.Epoch)) }

// CreateLog makes the empty log of a shard, and sets its time of creation.
func (c *Cluster) CreateLog(ctx context.Context, s *Shard) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stream, err := c.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: c.stream(s), Subjects: []string{c.stream(s)}, Storage: jetstream.FileStorage, Replicas: c.copies(),
		Discard: jetstream.DiscardNew, Duplicates: Window, DenyDelete: true, AllowDirect: false,
		// A server (2.15.2) that is killed may leave a compressed block that it cannot read any more.
		Compression: jetstream.NoCompression,
	})
	if err != nil {
		return failure(err, "create the log of shard "+s.ID)
	}
	s.Created = stream.CachedInfo().Created.UnixNano()
	return nil
}

// DeleteLog deletes the log of a shard that has another one now. That there is none is no error.
func (c *Cluster) DeleteLog(ctx context.Context, s *Shard) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := c.js.DeleteStream(ctx, c.stream(s))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return failure(err, "delete the log of shard "+s.ID)
}

// ackTime is how long the servers may take to store a small message before it is sent again. A leader that
// has ended does not answer, and the next one knows nothing of what was sent to it.
const ackTime = time.Second

// Publish appends a message to the log of a shard, and returns its sequence once a majority of the servers
// has it. A message with the id of one of the last two minutes (Window) is not appended again: its sequence
// is that of the first. Errors: ErrSealed, ErrTooLarge, ErrFull, ErrLogLost, ErrUnreachable if the message
// was not sent, ErrChanged and, if the servers did not answer in time, ErrUnknown.
func (c *Cluster) Publish(ctx context.Context, s *Shard, id string, m *Message) (sequence uint64, err error) {
	b, err := m.encode()
	if err != nil {
		return 0, err
	}
	if len(b) > c.MaxMessage() {
		return 0, fmt.Errorf("%w: %d bytes, the servers take at most %d (max_payload)", ErrTooLarge, len(b),
			c.MaxMessage())
	}
	msg := &nats.Msg{Subject: c.stream(s), Data: b, Header: nats.Header{
		formatHeader: {format}, sumHeader: {strconv.FormatUint(uint64(sum(b)), 16)},
	}}
	ctx, cancel := context.WithTimeout(ctx, ackTime+time.Duration(len(b)/leastRate)*time.Second)
	defer cancel()
	ack, err := c.js.PublishMsg(ctx, msg, jetstream.WithMsgID(id), jetstream.WithExpectStream(c.stream(s)))
	if err == nil {
		return ack.Sequence, nil
	}
	what := "the log of shard " + s.ID
	failed := failure(err, what)
	sent := !errors.Is(err, nats.ErrReconnectBufExceeded) && !errors.Is(err, nats.ErrConnectionClosed)
	if !sent || !errors.Is(failed, ErrUnreachable) && !errors.Is(failed, context.Canceled) {
		return 0, failed
	}
	// Without a leader nobody takes the message, and nobody answers here.
	limited, stop := context.WithTimeout(ctx, ackTime/4)
	defer stop()
	stream, gone := c.js.Stream(limited, c.stream(s))
	if gone = failure(gone, what); gone == nil && errors.Is(err, jetstream.ErrNoStreamResponse) {
		gone = unchanged(s, stream.CachedInfo()) // otherwise the message may be stored
	}
	if errors.Is(gone, ErrLogLost) || errors.Is(gone, ErrChanged) {
		return 0, gone
	}
	return 0, fmt.Errorf("%w: %s: %w", ErrUnknown, what, err)
}

// Log is the log of a shard, for reading.
type Log struct {
	s      Shard
	stream jetstream.Stream
	opened atomic.Pointer[jetstream.StreamInfo] // of OpenLog, until it is asked for
}

// OpenLog opens the log of a shard. Errors: ErrLogLost if there is none, or another one than the map has,
// ErrChanged.
func (c *Cluster) OpenLog(ctx context.Context, s *Shard) (*Log, error) {
	stream, err := ask(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		return c.js.Stream(ctx, c.stream(s))
	})
	if err != nil {
		return nil, failure(err, "the log of shard "+s.ID)
	}
	l := &Log{s: *s, stream: stream}
	l.opened.Store(stream.CachedInfo())
	return l, l.same(stream.CachedInfo())
}

func (l *Log) same(info *jetstream.StreamInfo) error {
	if created := info.Created.UnixNano(); created != l.s.Created {
		return fmt.Errorf("%w: shard %s: the stream was made at %v, the map has another one of %v", ErrLogLost,
			l.s.ID, info.Created, time.Unix(0, l.s.Created).UTC())
	}
	return unchanged(&l.s, info)
}

// unchanged returns an error if the stream of a shard does not keep all that is published to the log.
func unchanged(s *Shard, info *jetstream.StreamInfo) error {
	o := &info.Config
	if o.Discard != jetstream.DiscardNew || o.Retention != jetstream.LimitsPolicy ||
		o.MaxAge > 0 || o.MaxMsgsPerSubject > 0 || !slices.Equal(o.Subjects, []string{o.Name}) {
		return fmt.Errorf("%w: shard %s: the settings of stream %s (make them limits, discard new, without "+
			"max-age and max-msgs-per-subject, and its name the only subject: nats stream edit)",
			ErrChanged, s.ID, o.Name)
	}
	return nil
}

// State is what a log has.
type State struct {
	First, Last uint64 // sequences of messages; without any, First is Last + 1
	Bytes       uint64 // of all messages
}

// State returns what the log has.
func (l *Log) State(ctx context.Context) (State, error) {
	info, err := l.info(ctx)
	if err != nil {
		return State{}, err
	}
	return State{max(info.State.FirstSeq, 1), info.State.LastSeq, info.State.Bytes}, nil
}

func (l *Log) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	if info := l.opened.Swap(nil); info != nil {
		return info, nil
	}
	info, err := ask(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) { return l.stream.Info(ctx) })
	if err != nil {
		return nil, failure(err, "the log of shard "+l.s.ID)
	}
	return info, l.same(info)
}

// Check returns the state of the log. Errors: ErrLogLost if the log does not have what a node has
// applied, all messages up to a sequence, of which the last one had the mark; ErrBehind if messages after
// it have been purged.
func (l *Log) Check(ctx context.Context, applied uint64, mark Mark) (State, error) {
	now, err := l.State(ctx)
	switch {
	case err != nil:
		return now, err
	case now.Last < applied:
		return now, fmt.Errorf("%w: shard %s: the last one is %d, the node has applied %d", ErrLogLost, l.s.ID,
			now.Last, applied)
	case now.First > applied+1:
		return now, fmt.Errorf("%w: shard %s: at %d, the node has applied %d", ErrBehind, l.s.ID, now.First,
			applied)
	case applied < now.First: // it has been purged
		return now, nil
	}
	msg, err := l.message(ctx, applied)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound): // purged since
		return now, nil
	case err != nil:
		return now, failure(err, fmt.Sprintf("message %d of shard %s", applied, l.s.ID))
	case newMark(msg.Time, msg.Data) != mark:
		return now, fmt.Errorf("%w: shard %s: message %d is another one than the node has applied", ErrLogLost,
			l.s.ID, applied)
	}
	return now, nil
}

func (l *Log) message(ctx context.Context, sequence uint64) (*jetstream.RawStreamMsg, error) {
	return ask(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return l.stream.GetMsg(ctx, sequence)
	})
}

// Purge removes the messages up to a sequence.
func (l *Log) Purge(ctx context.Context, upTo uint64) error {
	return failure(l.stream.Purge(ctx, jetstream.WithPurgeSequence(upTo+1)), "purge the log of shard "+l.s.ID)
}

// Seal ends a log for ever, and returns the sequence of its last message.
func (c *Cluster) Seal(ctx context.Context, s *Shard) (final uint64, err error) {
	l, err := c.OpenLog(ctx, s)
	if err != nil {
		return 0, err
	}
	info, err := l.info(ctx)
	if err == nil && !info.Config.Sealed {
		final, err = c.end(ctx, info.Config)
		return final, failure(err, "seal the log of shard "+s.ID)
	}
	// A server that has just become the leader may not have read all of the log.
	for still := 0; err == nil && still < 5; still++ {
		var now State
		if now, err = l.State(ctx); now.Last != final {
			final, still = now.Last, 0
		}
		if err == nil {
			err = Pause(ctx, 100*time.Millisecond)
		}
	}
	return final, err
}

// end appends an empty message as the last one, and seals the stream. A server that seals it still stores
// what it has accepted before: so it first refuses all other messages, which are larger, and what it has
// accepted comes before the empty one.
func (c *Cluster) end(ctx context.Context, o jetstream.StreamConfig) (final uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience) // requests get lost
	defer cancel()
	o.MaxMsgSize = 1
	if _, err = c.js.UpdateStream(ctx, o); err != nil {
		return 0, err
	}
	ack, err := c.js.Publish(ctx, o.Name, nil)
	if err != nil {
		return 0, err
	}
	o.Sealed = true
	_, err = c.js.UpdateStream(ctx, o)
	return ack.Sequence, err
}

// At returns the position behind a message of a log.
func (c *Cluster) At(ctx context.Context, s *Shard, sequence uint64) (Position, error) {
	at := Position{Shard: s.ID, Epoch: s.Epoch, Sequence: sequence}
	l, err := c.OpenLog(ctx, s)
	if err != nil {
		return at, err
	}
	msg, err := l.message(ctx, sequence)
	if err != nil {
		return at, failure(err, fmt.Sprintf("message %d of shard %s", sequence, s.ID))
	}
	at.Mark = newMark(msg.Time, msg.Data)
	return at, nil
}

// Find returns the sequence of the message with an id in a log that is sealed, if it is one of the last
// two minutes (Window).
func (c *Cluster) Find(ctx context.Context, s *Shard, id string) (sequence uint64, found bool, err error) {
	l, err := c.OpenLog(ctx, s)
	if err != nil {
		return 0, false, err
	}
	now, err := l.State(ctx)
	if err != nil {
		return 0, false, err
	}
	begin := time.Now().Add(-2 * Window) // clocks differ
	consumer, err := l.consumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &begin, HeadersOnly: true,
	})
	if err != nil {
		return 0, false, err
	}
	defer l.forget(consumer)
	for at := uint64(0); at < now.Last; { // all: the server of the consumer may be behind the others
		before := at
		batch, err := consumer.Fetch(int(min(now.Last-at, 1024)), jetstream.FetchMaxWait(answerTime))
		if err != nil {
			return 0, false, failure(err, "the log of shard "+s.ID)
		}
		for msg := range batch.Messages() {
			meta, err := msg.Metadata()
			if err != nil {
				return 0, false, err
			}
			if at = meta.Sequence.Stream; msg.Headers().Get(jetstream.MsgIDHeader) == id {
				return at, true, nil
			}
		}
		if at == before {
			return 0, false, fmt.Errorf("%w: shard %s: message %d does not arrive", ErrUnreachable, s.ID,
				now.Last)
		}
	}
	return 0, false, nil
}

// Limits of a batch of Read.
const (
	batchMessages = 256
	batchBytes    = 4 << 20
)

// Read calls f with the messages after a sequence in order, in batches, until the context ends, f returns an
// error, or the connection to the servers was interrupted (ErrUnreachable): then call Check before reading
// on. It waits for further messages.
func (l *Log) Read(ctx context.Context, after uint64, f func([]Entry) error) error {
	what := "read the log of shard " + l.s.ID
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	consumer, err := l.consumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	})
	if err != nil {
		return err
	}
	defer func() { go l.forget(consumer) }() // servers may not answer for a second
	arrived := make(chan jetstream.Msg, batchMessages)
	consuming, err := consumer.Consume(func(msg jetstream.Msg) {
		select {
		case arrived <- msg:
		case <-ctx.Done():
		}
	}, jetstream.PullMaxMessagesWithBytesLimit(2*batchMessages, 4*batchBytes),
		jetstream.PullHeartbeat(time.Second), jetstream.PullExpiry(30*time.Second),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { stop(failure(err, what)) }))
	if err != nil {
		return failure(err, what)
	}
	defer consuming.Stop()
	for {
		batch, err := l.batch(ctx, &after, arrived)
		if err == nil {
			err = f(batch)
		}
		if err != nil {
			return err
		}
	}
}

// consumer makes one without state: what it has not delivered when its server ends is read by another one.
func (l *Log) consumer(ctx context.Context, o jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	o.AckPolicy, o.MaxDeliver = jetstream.AckNonePolicy, 1
	o.MemoryStorage, o.Replicas, o.InactiveThreshold = true, 1, time.Minute
	consumer, err := ask(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return l.stream.CreateConsumer(ctx, o)
	})
	return consumer, failure(err, "read the log of shard "+l.s.ID)
}

// forget deletes a consumer that is not used any more.
func (l *Log) forget(consumer jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.stream.DeleteConsumer(ctx, consumer.CachedInfo().Name)
}

// silence is after how long without messages the log is asked whether it has some.
const silence = 2 * time.Second

// batch returns the next entries.
func (l *Log) batch(
	ctx context.Context, after *uint64, arrived <-chan jetstream.Msg,
) (batch []Entry, err error) {
	size, behind := 0, uint64(0)
	for len(batch) == 0 || len(arrived) > 0 && len(batch) < batchMessages && size < batchBytes {
		var msg jetstream.Msg
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(silence):
			// A server that cannot read a message sends heartbeats and nothing else; another one may read it.
			if behind > *after {
				return nil, fmt.Errorf("%w: shard %s: message %d does not arrive, the log has %d", ErrUnreachable,
					l.s.ID, *after+1, behind)
			}
			limited, cancel := context.WithTimeout(ctx, answerTime)
			if now, err := l.State(limited); err == nil {
				behind = now.Last
			}
			cancel()
			continue
		case msg = <-arrived:
		}
		e, err := newEntry(msg)
		if err != nil {
			return nil, err
		}
		if *after++; e.Sequence != *after {
			return nil, fmt.Errorf("%w: shard %s: message %d arrived in place of %d", ErrUnreachable, l.s.ID,
				e.Sequence, *after)
		}
		batch, size = append(batch, e), size+e.Size
	}
	return batch, nil
}

func newEntry(msg jetstream.Msg) (e Entry, err error) {
	meta, err := msg.Metadata()
	if err != nil {
		return e, err
	}
	e.Sequence, e.Mark = meta.Sequence.Stream, newMark(meta.Timestamp, msg.Data())
	switch f := msg.Headers().Get(formatHeader); {
	case len(msg.Data()) == 0 && len(msg.Headers()) == 0: // the end of a log, which changes nothing
	case f == "":
		e.Foreign = true
		e.Err = fmt.Errorf("%w: message %d has no header %s", ErrCorrupt, e.Sequence, formatHeader)
	case f != format:
		e.Err = fmt.Errorf("%w: message %d has format %.20q, this program knows %s", ErrFormat, e.Sequence, f,
			format)
	case msg.Headers().Get(sumHeader) != strconv.FormatUint(uint64(e.Mark.Sum), 16):
		e.Err = fmt.Errorf("%w: message %d has the checksum %x, want %.20q", ErrCorrupt, e.Sequence, e.Mark.Sum,
			msg.Headers().Get(sumHeader))
	default:
		if e.Message, e.Size, err = decode(msg.Data()); err != nil {
			e.Err = fmt.Errorf("%w: message %d: %w", ErrFormat, e.Sequence, err)
		}
	}
	return e, nil
}
