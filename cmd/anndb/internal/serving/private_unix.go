//go:build unix

package serving

import (
	"net"
	"syscall"
)

// listenPrivate listens at a socket that only the user of the process can connect to, from its beginning.
func listenPrivate(path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return net.Listen("unix", path)
}
