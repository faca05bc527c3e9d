//go:build !linux

package child

// pin does nothing: only Linux lets a thread choose its core.
func pin(int) (release func(), err error) { return func() {}, nil }
