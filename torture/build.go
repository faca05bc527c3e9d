package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is the directory of this module's source, which builds need.
func module(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Path}} {{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	dir, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "github.com/anndb/anndb/torture ")
	if !ok {
		return "", fmt.Errorf("the working directory is not in this module but in %s", strings.TrimSpace(string(out)))
	}
	return dir, nil
}

// moduleDir is where the module cache has a module that this one needs.
func moduleDir(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", name).Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// buildWith builds this module from source with other directories in the place
// of modules, by a go.mod of its own in dir.
func buildWith(ctx context.Context, source, dir, binary string, replace map[string]string, flags ...string) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	mod := filepath.Join(dir, "go.mod")
	edit := []string{"mod", "edit", "-replace=github.com/anndb/anndb=" + filepath.Dir(source)}
	for module, by := range replace {
		edit = append(edit, "-replace="+module+"="+by)
	}
	if err := goCommand(ctx, source, append(edit, mod)...); err != nil {
		return err
	}
	return goCommand(ctx, source, append(append([]string{"build", "-modfile", mod, "-o", binary}, flags...), ".")...)
}

// goCommand runs the go tool in a directory.
func goCommand(ctx context.Context, dir string, args ...string) error {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", args[0], err, out)
	}
	return nil
}

// copyTree copies the directories and regular files of a tree, writable, but
// for those that skip names by their path in the tree.
func copyTree(from, to string, skip func(path string) bool) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if skip != nil && skip(name) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o600)
	})
}
