package main

import (
	"net"
	"sync"
	"time"
)

// links are TCP proxies between processes.
type links struct {
	mu   sync.Mutex
	list []*link
}

// link is a proxy from one process to another one.
type link struct {
	from, to string // their names
	target   string
	listener net.Listener

	mu      sync.Mutex
	state   state
	changed chan struct{} // closed when the state changes
	open    map[net.Conn]bool
}

// state is what a link does with its connections; the zero state passes all on.
type state struct {
	silent bool          // bytes wait
	refuse bool          // connections are closed, new ones too
	delay  time.Duration // of each packet
}

// add makes a link to an address, and returns the address of the link.
func (ls *links) add(from, to, target string) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	k := &link{from: from, to: to, target: target, listener: l}
	k.changed, k.open = make(chan struct{}), map[net.Conn]bool{}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.list = append(ls.list, k)
	go k.serve()
	return l.Addr().String(), nil
}

// set sets the state of all links from and to a process.
func (ls *links) set(process string, s state) {
	ls.each(func(k *link) {
		if k.from == process || k.to == process {
			k.set(s)
		}
	})
}

// setFrom sets the state of the links from a process, for a node those to the log.
func (ls *links) setFrom(process string, s state) {
	ls.each(func(k *link) {
		if k.from == process {
			k.set(s)
		}
	})
}

func (ls *links) each(f func(k *link)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, k := range ls.list {
		f(k)
	}
}

// close ends all links.
func (ls *links) close() {
	ls.each(func(k *link) {
		_ = k.listener.Close()
		k.set(state{refuse: true})
	})
}

func (k *link) set(s state) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state = s
	close(k.changed)
	k.changed = make(chan struct{})
	if s.refuse {
		for c := range k.open {
			_ = c.Close()
		}
	}
}

func (k *link) serve() {
	for {
		c, err := k.listener.Accept()
		if err != nil {
			return
		}
		go k.connect(c)
	}
}

// connect passes on what a connection sends, and what it is answered.
func (k *link) connect(c net.Conn) {
	defer k.drop(c)
	if !k.keep(c) {
		return
	}
	target, err := net.Dial("tcp", k.target)
	if err != nil {
		time.Sleep(200 * time.Millisecond) // clients do not know that nothing was sent
		return
	}
	defer k.drop(target)
	if !k.keep(target) {
		return
	}
	ended := make(chan struct{}, 2)
	for _, ends := range [][2]net.Conn{{c, target}, {target, c}} {
		go func() {
			k.copy(ends[0], ends[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}

// keep notes an open connection, unless the link refuses it.
func (k *link) keep(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.state.refuse {
		k.open[c] = true
	}
	return !k.state.refuse
}

func (k *link) drop(c net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.open, c)
	_ = c.Close()
}

// copy copies until one of the connections ends, as the state of the link allows.
func (k *link) copy(from, to net.Conn) {
	packet := make([]byte, 64<<10)
	for {
		n, err := from.Read(packet)
		if err != nil {
			return
		}
		for s, changed := k.now(); s.silent; s, changed = k.now() {
			<-changed
		}
		s, _ := k.now()
		time.Sleep(s.delay)
		if _, err := to.Write(packet[:n]); err != nil {
			return
		}
	}
}

func (k *link) now() (state, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state, k.changed
}
