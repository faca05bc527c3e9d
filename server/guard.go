package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/anndb/anndb/internal/wire"
)

// admit refuses requests without the token, and those that the page of another site may have made a browser
// send. A Unix socket is protected by its mode.
func (s *Server) admit(r *http.Request) error {
	if Local(r) {
		return nil
	}
	origin := r.Header.Get("Origin")
	if origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host {
		return fmt.Errorf("%w: a page of %.100q, another site", wire.ErrForbidden, origin)
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
	default:
		return fmt.Errorf("%w: a request from another site", wire.ErrForbidden)
	}
	if s.o.Token == "" {
		return hostSuits(r)
	}
	sent, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if got := digest(sent); !ok || subtle.ConstantTimeCompare(got[:], s.token[:]) != 1 {
		return wire.ErrUnauthorized
	}
	return nil
}

// digest makes texts of any length comparable in constant time.
func digest(token string) [32]byte { return sha256.Sum256([]byte(token)) }

// hostSuits refuses the names of other hosts: their owner could have them resolved to this one, and read the
// answers as those of a page of its own (DNS rebinding).
func hostSuits(r *http.Request) error {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return nil
	}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if a.IsLoopback() || local != nil && local.AddrPort().Addr().Unmap() == a.Unmap() {
			return nil
		}
	}
	return fmt.Errorf("%w: host %.100q is not that of this server (use localhost, or a token)",
		wire.ErrForbidden, r.Host)
}
