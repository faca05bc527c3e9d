package process

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts are those of Linux")
	}
	debug.FreeOSMemory() // else the block may take memory that the process already has
	own := Anonymous()
	block := make([]byte, 16<<20)
	for i := 0; i < len(block); i += 512 {
		block[i] = 1
	}
	if grown := Anonymous() - own; own <= 0 || grown < 8<<20 || Resident() <= own {
		t.Errorf("16 MB made memory of %d bytes grow by %d; with files it is %d", own, grown, Resident())
	}
	runtime.KeepAlive(block)
}
