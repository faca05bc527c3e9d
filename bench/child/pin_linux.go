package child

import "golang.org/x/sys/unix"

// pin binds the calling thread to a core; release undoes it.
func pin(core int) (release func(), err error) {
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, err
	}
	one.Set(core)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return nil, err
	}
	return func() { _ = unix.SchedSetaffinity(0, &before) }, nil
}
