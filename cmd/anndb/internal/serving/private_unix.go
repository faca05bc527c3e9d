//go:build unix

package serving

import (
	"net"
	"sync"
	"syscall"
)

// masking is held while the mask of new files is another one, which is that of the whole process.
var masking sync.Mutex

// listenPrivate listens at a socket that only the user of the process can connect to, from its beginning.
func listenPrivate(path string) (net.Listener, error) {
	masking.Lock()
	defer masking.Unlock()
	defer syscall.Umask(syscall.Umask(0o177))
	return net.Listen("unix", path)
}
