package soak

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/db"
)

// Sample is what the process and the file took at a moment.
type Sample struct {
	// Seconds since the day began, and its hours so far.
	Seconds, Hours float64
	// Anonymous is the process's own memory, Mapped that of the file which is
	// resident, Heap what the Go heap holds, all in bytes.
	Anonymous, Mapped, Heap int64
	Descriptors, Goroutines int
	// File and Free are the file's length and its free pages, in bytes.
	File, Free int64
	// Live rows and row numbers in use, of both collections; rows that no index
	// covers yet; steps of maintenance done since the last opening.
	Live, Rows, Fresh int
	Steps             uint64
	// Median and Slow (the 99th of 100) are of the queries since the sample
	// before, in microseconds.
	Median, Slow float64
}

// Header names the columns of Sample.CSV.
const Header = "seconds,hours,anonymous_mb,mapped_mb,heap_mb,descriptors,goroutines,file_mb,free_mb,live,rows,fresh,steps,median_us,p99_us"

// CSV is the sample in a line.
func (s Sample) CSV() string {
	mb := func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }
	return fmt.Sprintf("%.0f,%.2f,%s,%s,%s,%d,%d,%s,%s,%d,%d,%d,%d,%.0f,%.0f", s.Seconds, s.Hours, mb(s.Anonymous), mb(s.Mapped), mb(s.Heap),
		s.Descriptors, s.Goroutines, mb(s.File), mb(s.Free), s.Live, s.Rows, s.Fresh, s.Steps, s.Median, s.Slow)
}

// sampleEvery is how often samples are taken.
const sampleEvery = 2 * time.Second

// watch takes samples until it is told to stop.
func (y *Day) watch() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	start := time.Now()
	go func() {
		defer close(done)
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				if s, err := y.sample(start); err == nil {
					y.Sampled(s)
				} else if !errors.Is(err, db.ErrClosed) { // it is being reopened
					y.count("samples that failed", 1)
				}
			}
		}
	}()
	return func() { close(quit); <-done }
}

// sample is taken now.
func (y *Day) sample(start time.Time) (s Sample, err error) {
	y.mu.Lock()
	d, minute, latency := y.d, y.minute, y.latency
	y.latency = nil
	y.mu.Unlock()
	st, err := d.Stats()
	if err != nil {
		return s, err
	}
	s = Sample{
		Seconds: time.Since(start).Seconds(), Hours: float64(minute) / 60, Goroutines: runtime.NumGoroutine(),
		File: st.FileBytes, Free: st.FreeBytes, Steps: st.Maintenance.Steps,
	}
	for _, c := range st.Collections {
		s.Live += c.Live
		s.Rows += c.Rows
	}
	for _, x := range st.Indexes {
		s.Fresh += x.Fresh
	}
	if len(latency) > 0 {
		slices.Sort(latency)
		us := func(i int) float64 { return float64(latency[i].Nanoseconds()) / 1000 }
		s.Median, s.Slow = us(len(latency)/2), us(len(latency)*99/100)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.Heap = int64(m.HeapAlloc)
	if s.Anonymous, s.Mapped, err = Resident("/proc/self/status"); err != nil {
		return s, err
	}
	fds, err := os.ReadDir("/proc/self/fd")
	s.Descriptors = len(fds)
	return s, err
}

// Resident is the resident memory of the process with the status file, its own and that of files.
func Resident(status string) (anonymous, mapped int64, err error) {
	text, err := os.ReadFile(status)
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		var name string
		var kb int64
		if n, _ := fmt.Sscanf(line, "%s %d kB", &name, &kb); n < 2 {
			continue
		}
		switch name {
		case "RssAnon:":
			anonymous = kb << 10
		case "RssFile:":
			mapped = kb << 10
		}
	}
	return anonymous, mapped, nil
}

// Levels says whether what the day took levels off: in the last quarter of the
// samples no quantity is more than 15 % above that of the second quarter, but
// for a slack of what a moment may take (a step of the file's growth of 16 MiB,
// 16 MB of memory, three descriptors, six goroutines). Compared are the highest
// values, but of memory the medians, since its peaks tell when the collector ran
// more than what is held. The first quarter is for warming up.
func Levels(all []Sample) error {
	if len(all) < 16 {
		return fmt.Errorf("%d samples are too few to judge", len(all))
	}
	second, last := all[len(all)/4:len(all)/2], all[3*len(all)/4:]
	var errs []error
	for _, q := range []struct {
		name         string
		share, slack float64
		of           func(Sample) float64
	}{
		{"own memory", 0.5, 16e6, func(s Sample) float64 { return float64(s.Anonymous) }},
		{"resident memory", 0.5, 16e6, func(s Sample) float64 { return float64(s.Anonymous + s.Mapped) }},
		{"descriptors", 1, 3, func(s Sample) float64 { return float64(s.Descriptors) }},
		{"goroutines", 1, 6, func(s Sample) float64 { return float64(s.Goroutines) }},
		{"file", 1, 16 << 20, func(s Sample) float64 { return float64(s.File) }},
	} {
		quantile := func(of []Sample) float64 {
			var x []float64
			for _, s := range of {
				x = append(x, q.of(s))
			}
			slices.Sort(x)
			return x[int(q.share*float64(len(x)-1))]
		}
		if a, b := quantile(second), quantile(last); b > 1.15*a+q.slack {
			errs = append(errs, fmt.Errorf("%s does not level off: %.0f in the second quarter, %.0f in the last", q.name, a, b))
		}
	}
	return errors.Join(errs...)
}
