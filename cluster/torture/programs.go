package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// aheadVariable is a variable of the environment of a process: by how many seconds its clock is ahead.
const aheadVariable = "TORTURE_AHEAD"

// patches change the standard library of the processes: their clocks can be wrong, and an attribute of
// each file has the size that was last synced, which is all that a loss of power leaves (cutUnsynced).
var patches = []struct{ file, old, new string }{
	{"time/time.go", "\t\"errors\"\n", "\t\"errors\"\n\t\"syscall\"\n"},
	{"time/time.go", "sec, nsec, mono := runtimeNow()\n", "sec, nsec, mono := runtimeNow()\n\tsec += ahead\n"},
	{"time/time.go", "// Now returns", `var ahead = func() (n int64) {
	text, _ := syscall.Getenv("` + aheadVariable + `")
	for _, c := range text {
		n = 10*n + int64(c-'0')
	}
	return n
}()

// Now returns`},
	{"os/file.go", "n, e := f.write(b)\n", `n, e := f.write(b)
	flags, _, _ := syscall.Syscall(syscall.SYS_FCNTL, uintptr(f.pfd.Sysfd), syscall.F_GETFL, 0)
	if flags&syscall.O_SYNC == syscall.O_SYNC {
		f.noteSynced(f.Stat())
	}
`},
	{"os/file_posix.go", "\t\"internal/testlog\"\n", "\t\"internal/strconv\"\n\t\"internal/testlog\"\n"},
	{"os/file_posix.go", "func (f *File) Sync() error {\n", `func (f *File) Sync() error {
	info, failed := f.Stat()
	err := f.sync()
	if err == nil {
		f.noteSynced(info, failed)
	}
	return err
}

func (f *File) noteSynced(info FileInfo, err error) {
	if err == nil {
		path := "/proc/self/fd/" + strconv.Itoa(f.pfd.Sysfd)
		_ = syscall.Setxattr(path, "` + syncedAttribute + `", []byte(strconv.Itoa(int(info.Size()))), 0)
	}
}

func (f *File) sync() error {
`},
}

const syncedAttribute = "user.synced"

// build builds a program, the package pkg, with the patches.
func (b *bench) build(ctx context.Context, name, pkg string) (program string, err error) {
	program = filepath.Join(b.folder, name)
	args := []string{"build", fmt.Sprintf("-race=%v", b.race), "-o", program}
	if !b.plain {
		overlay, err := b.patch(ctx)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	out, err := exec.CommandContext(ctx, "go", append(args, pkg)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w: %s", pkg, err, out)
	}
	return program, nil
}

// patch writes the changed files of the standard library, and the list of them.
func (b *bench) patch(ctx context.Context) (overlay string, err error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	files := map[string]string{}
	for _, p := range patches {
		original := filepath.Join(strings.TrimSpace(string(root)), "src", p.file)
		changed := filepath.Join(b.folder, filepath.Base(p.file))
		if files[original] == "" {
			files[original] = changed
			changed = original
		}
		text, err := os.ReadFile(changed)
		if err != nil {
			return "", err
		}
		if strings.Count(string(text), p.old) != 1 {
			return "", fmt.Errorf("%s is none that the bench can patch: %q", original, p.old)
		}
		text = []byte(strings.Replace(string(text), p.old, p.new, 1))
		if err := os.WriteFile(files[original], text, 0o600); err != nil {
			return "", err
		}
	}
	body, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(b.folder, "overlay.json")
	return overlay, os.WriteFile(overlay, body, 0o600)
}

// cutUnsynced cuts the blocks of logs in a folder to what was synced of them. Other files, and the blocks
// before that, are as they were, which is what a loss of power may leave.
func cutUnsynced(folder string) error {
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".blk" {
			return err
		}
		value := make([]byte, 20)
		n, err := unix.Getxattr(path, syncedAttribute, value)
		if errors.Is(err, unix.ENODATA) {
			return os.Truncate(path, 0)
		}
		if err != nil {
			return err
		}
		synced, err := strconv.ParseInt(string(value[:n]), 10, 64)
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err == nil && info.Size() > synced {
			err = os.Truncate(path, synced)
		}
		return err
	})
}
