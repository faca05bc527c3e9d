package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/anndb/anndb/bench/internal/vectors"
)

// made is what is kept of a build, beside the index's file.
type made struct {
	Words string
	// Seconds is the time of the build by number of threads, Detail where it
	// went.
	Seconds map[int]float64
	Detail  map[int]string
}

// trial is one setting on the validation queries.
type trial struct {
	Setting string
	Recall  float64
	Micros  float64
}

// lab measures the systems of one set.
type lab struct {
	set     *vectors.Set
	dir     string // of this set's files
	drivers string
	core    int
	files   files
	truths  map[string]*truth
	say     func(format string, args ...any)
}

// newLab reads the set and finds the truth of its queries.
func newLab(c *config, name string) (*lab, error) {
	l := &lab{dir: filepath.Join(c.cache, name), drivers: c.drivers, core: c.core, say: c.say, truths: map[string]*truth{}}
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return nil, err
	}
	var err error
	if l.set, err = vectors.Load(c.data, name); err != nil {
		return nil, err
	}
	if err := l.fresh(); err != nil {
		return nil, err
	}
	l.files = files{dir: l.dir, set: l.set}
	for slot, rows := range map[string][]float32{"test": l.set.Test, "valid": l.set.Valid} {
		if l.truths[slot], err = exact(l.set, l.dir, slot, rows); err != nil {
			return nil, err
		}
	}
	l.say("%s: %d rows of %d, %s, whole bytes: %v", name, l.set.Rows(), l.set.Dim, l.set.Metric, l.set.Whole)
	return l, nil
}

// fresh empties the set's folder where it is of other rows.
func (l *lab) fresh() error {
	path, sum := filepath.Join(l.dir, "checksum"), l.set.Checksum()
	if text, err := os.ReadFile(path); err == nil && string(text) == sum {
		return nil
	}
	old, err := filepath.Glob(filepath.Join(l.dir, "*"))
	if err != nil {
		return err
	}
	for _, f := range old {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	return os.WriteFile(path, []byte(sum), 0o644)
}

// argv is the command line of a driver.
func (l *lab) argv(driver string) ([]string, error) {
	core := strconv.Itoa(l.core)
	if driver == "anndb" {
		self, err := os.Executable()
		return []string{self, "-serve", "-core", core}, err
	}
	path := filepath.Join(l.drivers, driver)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%w: %s", errDriver, path)
	}
	return []string{path, core}, nil
}

var errDriver = errors.New("driver is not built")

// child starts a system's driver and gives it the queries.
func (l *lab) child(ctx context.Context, s *system) (*process, error) {
	argv, err := l.argv(s.driver)
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, s.name, argv)
	if err != nil {
		return nil, err
	}
	for _, slot := range []string{"test", "valid"} {
		path, n, err := l.files.path(slot, s.rows)
		if err == nil {
			_, err = p.ask("queries", slot, path, strconv.Itoa(n), strconv.Itoa(l.set.Dim), s.rows)
		}
		if err != nil {
			return nil, errors.Join(err, p.stop())
		}
	}
	return p, nil
}

func (l *lab) indexPath(s *system) string { return filepath.Join(l.dir, s.indexName()+".index") }
func (l *lab) madePath(s *system) string  { return filepath.Join(l.dir, s.indexName()+".json") }
func (l *lab) curvePath(s *system) string { return filepath.Join(l.dir, s.name+".curve.json") }
func (l *lab) trialPath(s *system) string { return filepath.Join(l.dir, s.name+".trials.json") }

// builds makes the index of a system with each number of threads that has no
// time yet; the last one made is kept. An index made with other words is made
// again.
func (l *lab) builds(ctx context.Context, s *system, threads []int) error {
	var m made
	known := load(l.madePath(s), &m) == nil && m.Words == s.build
	if s.index != "" && known {
		return nil
	}
	if _, err := os.Stat(l.indexPath(s)); err != nil || !known {
		m = made{}
	}
	if m.Seconds == nil {
		m.Words, m.Seconds, m.Detail = s.build, map[int]float64{}, map[int]string{}
	}
	for _, t := range threads {
		if _, ok := m.Seconds[t]; ok {
			continue
		}
		p, err := l.child(ctx, s)
		if err != nil {
			return err
		}
		err = l.build(p, s, t, &m)
		if err := errors.Join(err, p.stop()); err != nil {
			return err
		}
		l.say("%s: %s built in %.1f s on %d threads %s", l.set.Name, s.name, m.Seconds[t], t, m.Detail[t])
		if err := save(l.madePath(s), m); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) build(p *process, s *system, threads int, m *made) error {
	path, n, err := l.files.path("base", s.rows)
	if err != nil {
		return err
	}
	if _, err := p.ask("base", path, strconv.Itoa(n), strconv.Itoa(l.set.Dim), s.rows); err != nil {
		return err
	}
	took, answer, err := p.value("seconds", "build", strconv.Itoa(threads), "scratch="+l.indexPath(s)+".new", s.build)
	if err != nil {
		return err
	}
	m.Seconds[threads] = took
	_, m.Detail[threads], _ = strings.Cut(answer, "detail=")
	if _, err := p.ask("save", l.indexPath(s)+".new"); err != nil {
		return err
	}
	return os.Rename(l.indexPath(s)+".new", l.indexPath(s))
}

// open starts a driver with the saved index.
func (l *lab) open(ctx context.Context, s *system) (*process, error) {
	p, err := l.child(ctx, s)
	if err != nil {
		return nil, err
	}
	if _, err := p.ask("open", l.indexPath(s), strconv.Itoa(l.set.Dim), s.build); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// try measures the settings of a system on a slot of queries.
func (l *lab) try(p *process, s *system, slot string) ([]trial, error) {
	settings := s.settings
	if settings == nil {
		answer, err := p.ask("settings")
		if err != nil {
			return nil, err
		}
		settings = strings.Fields(answer)
	}
	queries := l.set.Valid
	if slot == "test" {
		queries = l.set.Test
	}
	var out []trial
	for _, w := range settings {
		// The choice on a ladder is by recall alone.
		passes := 3
		if s.ladder && slot == "valid" || len(out) > 0 && out[len(out)-1].Micros > 300 {
			passes = 1
		}
		r, err := p.run(slot, k, passes, 0, s.limit, w)
		if err != nil {
			return nil, err
		}
		t := trial{Setting: w, Recall: recall(l.set, l.truths[slot], queries, r.ids), Micros: slices.Min(r.means())}
		out = append(out, t)
		// Settings go from fast to exact: those beyond full recall are of no use,
		// nor is there hope where twice the work brought nothing.
		if s.settings != nil && t.Recall >= 0.9995 {
			break
		}
		if n := len(out); s.ladder && n > 8 && t.Recall-out[n-9].Recall < 0.001 {
			break
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s: no settings to try", errChild, s.name)
	}
	return out, nil
}

// choose is the setting for a recall, chosen on the validation queries.
func (s *system) choose(trials []trial, target float64) (setting string, ok bool) {
	if s.settings != nil && strings.HasPrefix(s.settings[0], "recall=") {
		return "recall=" + strconv.FormatFloat(target, 'g', -1, 64), true
	}
	best := math.Inf(1)
	for _, t := range trials {
		if t.Recall < target {
			continue
		}
		if s.ladder {
			return t.Setting, true
		}
		if t.Micros < best {
			best, setting, ok = t.Micros, t.Setting, true
		}
	}
	return setting, ok
}

// means are the mean times of a query in microseconds by pass.
func (r *run) means() []float64 {
	out := make([]float64, len(r.ns))
	for p, ns := range r.ns {
		sum := 0.0
		for _, x := range ns {
			sum += float64(x)
		}
		out[p] = sum / float64(len(ns)) / 1000
	}
	return out
}

// quantile is the q-quantile of one pass in microseconds.
func quantile(ns []uint32, q float64) float64 {
	s := slices.Sorted(slices.Values(ns))
	return float64(s[min(len(s)-1, int(q*float64(len(s))))]) / 1000
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	if n == 0 {
		return math.NaN()
	}
	return (s[(n-1)/2] + s[n/2]) / 2
}

func load(path string, to any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

func save(path string, from any) error {
	text, err := json.MarshalIndent(from, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
