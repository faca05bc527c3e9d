package budget

import (
	"context"
	"sync"

	"github.com/anndb/anndb/internal/par"
)

// task grows one node and returns the tasks of its children. What it does
// depends on the task alone, not on the worker or on its turn, so that trees
// are the same at any number of workers.
type task func(ctx context.Context, w *worker) ([]task, error)

// worker is what a goroutine keeps from task to task.
type worker struct {
	scratch *scratch
	count   []uint32 // of each label, zero between tasks
}

// pool runs tasks, last come first, on workers goroutines; less than 1 means
// all processors. progress, which may be nil, is told growing amounts of total
// by the tasks' calls of advance, one call at a time.
type pool struct {
	mu       sync.Mutex
	wake     sync.Cond
	waiting  []task
	busy     int
	err      error
	done     int
	total    int
	progress func(done, total int)
}

func newPool(total int, progress func(done, total int)) *pool {
	p := &pool{total: total, progress: progress}
	p.wake.L = &p.mu
	return p
}

// advance reports n more units as done.
func (p *pool) advance(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if p.progress != nil && n > 0 {
		p.progress(p.done, p.total)
	}
}

// run works until no task is left or one has failed, whose error it returns.
func (p *pool) run(ctx context.Context, cols, labels, workers int, tasks []task) error {
	p.waiting = tasks
	stop := context.AfterFunc(ctx, func() { p.fail(ctx.Err()) })
	defer stop()
	var all sync.WaitGroup
	for range par.Workers(workers) {
		all.Go(func() {
			w := &worker{}
			for {
				t, ok := p.next()
				if !ok {
					return
				}
				if w.scratch == nil {
					w.scratch, w.count = newScratch(cols), make([]uint32, labels)
				}
				more, err := t(ctx, w)
				p.finish(more, err)
			}
		})
	}
	all.Wait()
	return p.err
}

func (p *pool) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.wake.Broadcast()
}

// next waits for a task; not ok when there will be none.
func (p *pool) next() (task, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) == 0 && p.busy > 0 && p.err == nil {
		p.wake.Wait()
	}
	if len(p.waiting) == 0 || p.err != nil {
		return nil, false
	}
	last := len(p.waiting) - 1
	t := p.waiting[last]
	p.waiting[last] = nil
	p.waiting = p.waiting[:last]
	p.busy++
	return t, true
}

func (p *pool) finish(more []task, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	p.waiting = append(p.waiting, more...)
	if p.err == nil {
		p.err = err
	}
	p.wake.Broadcast()
}
