package vector

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// requireAll is for processors that are known to have every level. On them a skipped
// level is an error in the detection.
var requireAll = flag.Bool("require-all-kernels", false,
	"fail if the processor lacks an instruction set, instead of skipping it")

// atEachLevel runs f with every set of kernels forced in turn.
func atEachLevel(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) {
			if !level.supported() {
				if *requireAll {
					t.Fatalf("this processor lacks %v", level)
				}
				fmt.Fprintf(os.Stderr, "SKIPPED %s: this processor lacks %v\n", t.Name(), level)
				t.SkipNow()
			}
			level.force(t)
			if KernelName() != level.String() {
				t.Fatalf("the active kernels are %s", KernelName())
			}
			f(t)
		})
	}
}

// benchEachLevel is atEachLevel for benchmarks.
func benchEachLevel(b *testing.B, f func(b *testing.B)) {
	for _, level := range levels {
		b.Run(level.String(), func(b *testing.B) {
			if !level.supported() {
				b.Skipf("this processor lacks %v", level)
			}
			level.force(b)
			f(b)
		})
	}
}
