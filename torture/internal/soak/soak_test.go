package soak

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMinutes lives through the one minute of a day that has everything in it.
func TestMinutes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	y := New(filepath.Join(t.TempDir(), "soak.anndb"), 1)
	y.minute, y.Minutes, y.Pace = reopenEvery-1, reopenEvery, time.Millisecond
	y.Sampled = func(Sample) {}
	if err := y.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := y.Counts(); n["queries"] != queries || n["batches"] != batches || n["backups"] != 1 || n["compactions"] != 1 || n["reopenings"] != 1 {
		t.Errorf("%v", n)
	}
}

// TestLevels tells what grows for ever from what does not.
func TestLevels(t *testing.T) {
	var flat, growing, sawtooth []Sample
	for i := range 100 {
		flat = append(flat, Sample{Anonymous: 50e6, Mapped: 20e6, Descriptors: 10, Goroutines: 12, File: 100 << 20})
		s := flat[i]
		s.File += int64(i) << 20
		growing = append(growing, s)
		s = flat[i]
		s.File += int64(i%10) * 20 << 20
		sawtooth = append(sawtooth, s)
	}
	for name, of := range map[string][]Sample{"flat": flat, "saw-tooth": sawtooth} {
		if err := Levels(of); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Levels(growing); err == nil || !strings.Contains(err.Error(), "file does not level off") {
		t.Errorf("a growing file: %v", err)
	}
	for i := range flat {
		flat[i].Descriptors += i / 5
	}
	if err := Levels(flat); err == nil || !strings.Contains(err.Error(), "descriptors") {
		t.Errorf("leaking descriptors: %v", err)
	}
}
