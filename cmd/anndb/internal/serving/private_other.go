//go:build !unix

package serving

import "net"

// listenPrivate listens at a socket. The folder decides who can connect to it.
func listenPrivate(path string) (net.Listener, error) { return net.Listen("unix", path) }
