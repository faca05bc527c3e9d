// Package faultfs is a pass-through FUSE file system over one directory, which
// records every change with the barriers between them, and fails the changes
// it is told to fail.
//
// Whoever uses the mount must be another process than the one that serves it: a
// page fault of a mapped file blocks its thread where the Go scheduler does not
// see it, and the server may then be what waits for that thread.
package faultfs

import (
	"context"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// MarkPrefix begins names that stand for nothing: looking one up puts a Mark
// with the rest of the name into the record.
const MarkPrefix = ".mark-"

// FS is a mounted file system.
type FS struct {
	dir    string
	server *fuse.Server

	mu     sync.Mutex
	record []Op
	on     bool
	ids    map[uint64]int // by inode of the backing directory
	next   int
	fault  fault
}

// Mount mounts the directory dir at at. It needs the right to mount and
// /dev/fuse, and no helper program.
func Mount(dir, at string) (*FS, error) {
	f := &FS{dir: dir, ids: map[uint64]int{}}
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return nil, err
	}
	root := &fs.LoopbackRoot{Path: dir, Dev: uint64(st.Dev)}
	top := &node{LoopbackNode: fs.LoopbackNode{RootData: root}, f: f}
	root.RootNode = top
	server, err := fs.Mount(at, top, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, FsName: "torture", Name: "torture", MaxWrite: 1 << 20,
	}})
	if err != nil {
		return nil, err
	}
	f.server = server
	return f, nil
}

// Unmount ends the file system. It fails while files are open.
func (f *FS) Unmount() error { return f.server.Unmount() }

// node is a file or directory.
type node struct {
	fs.LoopbackNode
	f *FS
}

// handle is an open file. It must not offer the kernel its descriptor, which
// would then bypass this process.
type handle struct {
	*fs.LoopbackFile
	n *node
}

func (handle) PassthroughFd() (int, bool) { return 0, false }

// WrapChild makes the nodes that the pass-through makes ones of ours.
func (n *node) WrapChild(context.Context, fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{LoopbackNode: fs.LoopbackNode{RootData: n.RootData}, f: n.f}
}

var (
	_ fs.NodeWrapChilder = (*node)(nil)
	_ fs.NodeLookuper    = (*node)(nil)
	_ fs.NodeCreater     = (*node)(nil)
	_ fs.NodeOpener      = (*node)(nil)
	_ fs.NodeSetattrer   = (*node)(nil)
	_ fs.NodeFsyncer     = (*node)(nil)
	_ fs.FileWriter      = handle{}
	_ fs.FileFsyncer     = handle{}
)

func (n *node) ino() uint64 { return n.StableAttr().Ino }

// Lookup records marks.
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if mark, ok := strings.CutPrefix(name, MarkPrefix); ok {
		n.f.add(Op{Kind: Mark, Name: mark})
		return nil, syscall.ENOENT
	}
	return n.LoopbackNode.Lookup(ctx, name, out)
}

// Create makes and opens a file.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if errno := n.f.fails(Entries); errno != 0 {
		return nil, nil, 0, errno
	}
	inode, fh, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	child := inode.Operations().(*node)
	n.f.add(Op{Kind: Create, File: n.f.newID(child.ino()), Name: name})
	return inode, handle{fh.(*fs.LoopbackFile), child}, fuseFlags, 0
}

// Open opens a file.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	fh, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags)
	if errno != 0 {
		return nil, 0, errno
	}
	if flags&syscall.O_TRUNC != 0 {
		n.f.add(Op{Kind: Truncate, File: n.f.id(n.ino())})
	}
	return handle{fh.(*fs.LoopbackFile), n}, fuseFlags, 0
}

// Write writes, or fails as told.
func (h handle) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	f := h.n.f
	errno, part := f.failsWrite(len(data))
	f.remember(h.n.ino(), off, len(data))
	if part > 0 || errno == 0 {
		n, err := h.LoopbackFile.Write(ctx, data[:part], off)
		if err != 0 {
			return n, err
		}
		f.add(Op{Kind: Write, File: f.id(h.n.ino()), Off: off, Data: append([]byte(nil), data[:n]...)})
		if errno == 0 {
			return n, 0
		}
	}
	return 0, errno
}

// Fsync makes a file durable, or fails as told.
func (h handle) Fsync(ctx context.Context, _ uint32) syscall.Errno {
	f := h.n.f
	if errno := f.fails(Syncs); errno != 0 {
		f.forget(h.n.ino(), true)
		return errno
	}
	f.forget(h.n.ino(), false)
	// The backing file needs no fsync: nobody cuts its power.
	f.add(Op{Kind: Sync, File: f.id(h.n.ino())})
	return 0
}

// Fsync makes a directory durable; files have a handle's.
func (n *node) Fsync(ctx context.Context, fh fs.FileHandle, flags uint32) syscall.Errno {
	if h, ok := fh.(handle); ok {
		return h.Fsync(ctx, flags)
	}
	for _, target := range []Target{Syncs, DirSyncs} {
		if errno := n.f.fails(target); errno != 0 {
			return errno
		}
	}
	n.f.add(Op{Kind: SyncDir})
	return 0
}

// OpendirHandle leaves directories without a handle, so that their fsync comes
// to the node.
func (n *node) OpendirHandle(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	ds, errno := fs.NewLoopbackDirStream(n.path())
	if errno != 0 {
		return nil, 0, errno
	}
	return dirHandle{ds, n}, 0, 0
}

// dirHandle is an open directory.
type dirHandle struct {
	fs.DirStream
	n *node
}

func (d dirHandle) Readdirent(ctx context.Context) (*fuse.DirEntry, syscall.Errno) {
	if !d.HasNext() {
		return nil, 0
	}
	e, errno := d.Next()
	return &e, errno
}

func (d dirHandle) Releasedir(context.Context, uint32) { d.Close() }

func (d dirHandle) Fsyncdir(ctx context.Context, flags uint32) syscall.Errno {
	return d.n.Fsync(ctx, nil, flags)
}

func (n *node) path() string {
	if p := n.Path(nil); p != "" {
		return n.f.dir + "/" + p
	}
	return n.f.dir
}

// Setattr changes the size, or fails as told.
func (n *node) Setattr(ctx context.Context, fh fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	size, ok := in.GetSize()
	if ok {
		if errno := n.f.fails(Truncates); errno != 0 {
			return errno
		}
		n.f.remember(n.ino(), -1, 0)
	}
	if errno := n.LoopbackNode.Setattr(ctx, fh, in, out); errno != 0 {
		return errno
	}
	if ok {
		n.f.add(Op{Kind: Truncate, File: n.f.id(n.ino()), Off: int64(size)})
	}
	return 0
}

// Link gives a file another name.
func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if errno := n.f.fails(Entries); errno != 0 {
		return nil, errno
	}
	inode, errno := n.LoopbackNode.Link(ctx, target, name, out)
	if errno == 0 {
		n.f.add(Op{Kind: Link, File: n.f.id(target.EmbeddedInode().StableAttr().Ino), Name: name})
	}
	return inode, errno
}

// Unlink removes a name.
func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	if errno := n.f.fails(Entries); errno != 0 {
		return errno
	}
	errno := n.LoopbackNode.Unlink(ctx, name)
	if errno == 0 {
		n.f.add(Op{Kind: Unlink, Name: name})
	}
	return errno
}

// Rename gives a file another name in the place of its own.
func (n *node) Rename(ctx context.Context, name string, to fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	if errno := n.f.fails(Entries); errno != 0 {
		return errno
	}
	file := 0
	if child := n.GetChild(name); child != nil {
		file = n.f.id(child.StableAttr().Ino)
	}
	errno := n.LoopbackNode.Rename(ctx, name, to, newName, flags)
	if errno == 0 {
		n.f.add(Op{Kind: Rename, File: file, Name: name, To: newName})
	}
	return errno
}

// id is the number of an inode, which it gets when it is first seen.
func (f *FS) id(ino uint64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ids[ino] == 0 {
		f.next++
		f.ids[ino] = f.next
	}
	return f.ids[ino]
}

// newID is a new number for a new file, whose inode may have been another's.
func (f *FS) newID(ino uint64) int {
	f.mu.Lock()
	delete(f.ids, ino)
	f.mu.Unlock()
	return f.id(ino)
}

// Names are the files of a directory by the numbers that records use.
func (f *FS) names() (map[string]int, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, e := range entries {
		var st syscall.Stat_t
		if err := syscall.Lstat(f.dir+"/"+e.Name(), &st); err != nil {
			return nil, err
		}
		out[e.Name()] = f.id(st.Ino)
	}
	return out, nil
}
