package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/torture/internal/work"
)

// goingDown is EXT4_IOC_SHUTDOWN, which is XFS_IOC_GOINGDOWN as well, and
// noLogFlush its flag: whatever is not on the disk at this moment never will
// be, the journal's buffers included.
const (
	goingDown  = 0x8004587d
	noLogFlush = 2
)

// volume is a file system in a file.
type volume struct {
	image, at string
	options   string // of mount
	mounted   bool
}

// newVolume makes a file system of the type and mounts it.
func newVolume(dir, fsType, options string) (*volume, error) {
	v := &volume{filepath.Join(dir, fsType+".img"), filepath.Join(dir, fsType), options, false}
	if err := os.MkdirAll(v.at, 0o700); err != nil {
		return nil, err
	}
	f, err := os.Create(v.image)
	if err != nil {
		return nil, err
	}
	// xfs wants 300 MiB at least; blocks that are never written take no space.
	if err := errors.Join(f.Truncate(512<<20), f.Close()); err != nil {
		return nil, err
	}
	if err := command("mkfs."+fsType, "-q", v.image); err != nil {
		return nil, err
	}
	return v, v.mount()
}

func (v *volume) mount() error {
	options := "loop"
	if v.options != "" {
		options += "," + v.options
	}
	if err := command("mount", "-o", options, v.image, v.at); err != nil {
		return err
	}
	v.mounted = true
	return nil
}

// unmount gives a process that was just killed time to let go.
func (v *volume) unmount() (err error) {
	if !v.mounted {
		return nil
	}
	for range 100 {
		if err = unix.Unmount(v.at, 0); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", v.at, err)
	}
	v.mounted = false
	return nil
}

// cut cuts the power.
func (v *volume) cut() error {
	f, err := os.Open(v.at)
	if err != nil {
		return err
	}
	err = unix.IoctlSetPointerInt(int(f.Fd()), goingDown, noLogFlush)
	return errors.Join(err, f.Close())
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// cutPlans are what is cut, in turn, and how long after its moment at most.
var cutPlans = []struct {
	name   string
	plan   work.Plan
	within time.Duration
}{
	{"load", work.Plan{}, 50 * time.Millisecond},
	{"build", work.Plan{Every: 1, Steps: []string{work.Build}}, 300 * time.Millisecond},
	{"maintain", work.Plan{Every: 1, Steps: []string{work.Maintain}}, 100 * time.Millisecond},
	{"compact", work.Plan{Every: 2, Steps: []string{work.Compact, work.Reorder}}, 100 * time.Millisecond},
}

// powerCuts cuts the power of a file system under a writing process.
func powerCuts(ctx context.Context, e *env) (t totals, err error) {
	if os.Geteuid() != 0 {
		return t, skipped("mounting a loop device needs root")
	}
	t.add("cuts", 0)
	ran := false
	// Of the sample, most cuts are of ext4.
	for _, fs := range []struct {
		name, options string
		cuts, control int
	}{
		{"ext4", "commit=1000", e.pick(5, 250), e.pick(1, 20)},
		{"ext4", "commit=1", e.pick(3, 250), e.pick(0, 10)},
		{"xfs", "", e.pick(2, 100), e.pick(1, 10)},
	} {
		if _, err := exec.LookPath("mkfs." + fs.name); err != nil {
			t.skip("%s: no mkfs.%s", fs.name, fs.name)
			continue
		}
		dir, err := e.sub(fs.name + fs.options)
		if err != nil {
			return t, err
		}
		v, err := newVolume(dir, fs.name, fs.options)
		if err != nil {
			t.skip("%s %s: %v", fs.name, fs.options, err)
			continue
		}
		ran = true
		rng := e.rng(fs.name, fs.options)
		err = cuts(ctx, e, v, rng, fs.cuts, &t)
		if err == nil && fs.control > 0 {
			err = controlCuts(ctx, e, v, rng, fs.control, &t)
		}
		if err := errors.Join(err, v.unmount()); err != nil {
			return t, fmt.Errorf("%s %s: %w", fs.name, fs.options, err)
		}
	}
	if !ran {
		return t, skipped("no file system could be mounted")
	}
	return t, nil
}

// cutOnce runs a writer on a volume, cuts the power at a moment, kills the
// writer, and mounts the volume again.
func cutOnce(ctx context.Context, e *env, v *volume, w writing, at moment) (*written, error) {
	ctx, cancel := context.WithTimeout(ctx, momentLimit)
	defer cancel()
	c, err := e.write(ctx, w, at)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.reached:
	case err := <-c.done:
		return nil, fmt.Errorf("the writer ended, or was ended after %v, before its moment (%v): %w", momentLimit, at, errors.Join(err, ctx.Err()))
	}
	time.Sleep(at.delay)
	c.doomed.Store(true)
	err = v.cut()
	_ = c.cmd.Process.Kill() // it may have died of the cut
	// The writer's errors count up to the cut: doomed was not set then.
	err = errors.Join(err, <-c.done, v.unmount())
	if err != nil {
		return nil, err
	}
	return c, v.mount()
}

// cuts cuts the power n times, on files that earlier cuts have left, with a
// new file now and then so that its creation is cut as well.
func cuts(ctx context.Context, e *env, v *volume, rng *rand.Rand, n int, t *totals) error {
	var w writing
	known, built := 0, false
	for i := range n {
		what := cutPlans[i%len(cutPlans)]
		if i%8 == 0 {
			// Two thirds of the files fill chunks; on the others commits are as
			// frequent as the disk allows.
			w = writing{Path: filepath.Join(v.at, fmt.Sprintf("%d.anndb", i)), Script: work.Default(e.seed + uint64(i))}
			if rng.IntN(3) == 0 {
				w.Script = work.Small(e.seed + uint64(i))
			}
			known, built = 0, false
		}
		w.Plan = what.plan
		at := newMoment(rng, i, what.within)
		at.step = i%len(cutPlans) > 0 && i/len(cutPlans)%2 == 0
		if i%8 == 0 {
			at.acks = 0 // its creation
		}
		c, err := cutOnce(ctx, e, v, w, at)
		if err != nil {
			return fmt.Errorf("cut %d (%s): %w", i, what.name, err)
		}
		acked := max(known, c.batches)
		t.add("cuts", 1)
		t.add("batches", acked-known)
		t.add("builds", c.steps[work.Build])
		t.add("maintained", c.steps[work.Maintain])
		t.add("compacted", c.steps[work.Compact]+c.steps[work.Reorder])
		found, err := w.Script.Verify(ctx, w.Path, acked, 1)
		if built = built || c.steps[work.Build] > 0; err == nil && built {
			err = mustHaveIndexes(w)
		}
		if err != nil {
			return fmt.Errorf("cut %d (%s, after %v): %w", i, what.name, at, err)
		}
		e.log.Printf("%s: cut %d (%s) after %v: %d batches acknowledged, %d found, steps %v", v.at, i, what.name, at, acked, found, c.steps)
		t.add("unacknowledged", found-acked)
		known = found
		if i%8 == 7 || i == n-1 {
			if err := os.Remove(w.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	t.add("lost", 0)
	return nil
}

// mustHaveIndexes checks that the indexes whose build was acknowledged exist.
func mustHaveIndexes(w writing) error {
	o := work.Options()
	o.ReadOnly = true
	d, err := db.Open(context.Background(), w.Path, o)
	if err != nil {
		return err
	}
	return errors.Join(w.Script.HasIndexes(d), d.Close())
}

// controlCuts is the negative control: without fsync, acknowledged batches must
// be lost, or these cuts prove nothing.
func controlCuts(ctx context.Context, e *env, v *volume, rng *rand.Rand, n int, t *totals) error {
	t.add("control_cuts", 0)
	t.add("control_lost_batches", 0)
	lost := 0
	for i := range n {
		w := writing{Path: filepath.Join(v.at, fmt.Sprintf("control-%d.anndb", i)), Script: work.Default(e.seed), NoSync: true}
		c, err := cutOnce(ctx, e, v, w, moment{acks: 8 + rng.IntN(8)})
		if err != nil {
			return fmt.Errorf("control cut %d: %w", i, err)
		}
		t.add("control_cuts", 1)
		// A file that cannot be opened or is not whole has lost everything.
		if found, err := w.Script.Verify(ctx, w.Path, 0, 1<<30); err != nil {
			lost += max(0, c.batches)
		} else {
			lost += max(0, c.batches-found)
		}
	}
	t.add("control_lost_batches", lost)
	if lost == 0 {
		return fmt.Errorf("the negative control (NoSync) lost nothing in %d cuts, so that the others prove nothing", n)
	}
	return nil
}
