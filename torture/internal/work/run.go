package work

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/trees/budget"
)

// The steps that a run may take between batches.
const (
	Build    = "build"    // all indexes of all collections, again; see Indexes
	Maintain = "maintain" // DB.Maintain
	Compact  = "compact"  // DB.Compact
	Reorder  = "reorder"  // DB.Reorder
	Backup   = "backup"   // a copy beside the file, see BackupPath
	Drop     = "drop"     // the indexes are dropped
)

// Create makes the collections, as far as they are missing.
func (s Script) Create(ctx context.Context, d *db.DB) error {
	for _, c := range []struct {
		name   string
		schema db.Schema
	}{{Dense, db.Schema{Dim: s.Dim}}, {Sparse, db.Schema{Named: true}},
		{Both, db.Schema{Dim: textDim, Text: &text.Schema{}}}} {
		if _, err := d.Create(ctx, c.name, c.schema); err != nil && !errors.Is(err, db.ErrExists) {
			return err
		}
	}
	return nil
}

// Apply writes batch i in one Update.
func (s Script) Apply(ctx context.Context, d *db.DB, i int) error {
	return d.Update(ctx, func(b *db.Tx) error {
		for _, c := range s.batch(i) {
			for _, name := range collections {
				coll, row := b.Collection(name), c.rows[name]
				var err error
				switch {
				case c.delete:
					err = coll.Delete([]byte(c.key))
				case c.edit:
					err = edit(coll, &row)
				default:
					err = coll.Put(row)
				}
				if err != nil {
					return err
				}
			}
		}
		return b.Collection(Dense).Put(s.last(i + 1))
	})
}

// edit gives a row, if there is one with the key, the parts of another that can change.
func edit(c db.TxCollection, to *db.Row) error {
	exists, err := c.Has(to.Key)
	if err != nil || !exists {
		return err
	}
	return errors.Join(c.SetLabels(to.Key, to.Labels...), c.SetAttributes(to.Key, to.Attributes),
		c.SetExpiry(to.Key, to.ExpiresAt), c.SetPayload(to.Key, to.Payload))
}

// Step takes one of the steps.
func (s Script) Step(ctx context.Context, d *db.DB, step string) (err error) {
	switch step {
	case Build:
		for _, x := range s.Indexes() {
			_, err := d.Collection(x.Collection).Build(ctx, x.Name, x.Options, &db.Run{Workers: 1})
			if err != nil {
				return fmt.Errorf("build of %q: %w", x.Name, err)
			}
		}
	case Maintain:
		_, err = d.Maintain(ctx, 0, &db.Run{Workers: 1})
	case Compact:
		err = d.Compact(ctx, nil)
	case Reorder:
		err = d.Compact(ctx, &db.CompactOptions{Reorder: true})
	case Backup:
		err = backup(ctx, d)
	case Drop:
		for _, x := range s.Indexes() {
			if err := d.Collection(x.Collection).DropIndex(ctx, x.Name); err != nil && !errors.Is(err, db.ErrNotFound) {
				return err
			}
		}
	default:
		err = fmt.Errorf("unknown step %q", step)
	}
	return err
}

// Index is an index that a script builds.
type Index struct {
	Collection, Name string
	Options          index.Options
}

// Indexes are the indexes that Build builds: forests with neighbor lists and
// sketches, inverted indexes, and label models.
func (s Script) Indexes() []Index {
	forest := &index.Forest{
		Learner: "rp", Trees: 3, Depth: 3, LeafNeighbors: 5, ListNeighbors: 4, NoRotation: true,
		Members: true, NoTune: true, Seed: s.Seed,
	}
	model := &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 1}}
	return []Index{
		{Dense, "forest", forest},
		{Both, "forest", forest},
		{Both, "postings", &index.Postings{}},
		{Both, "lcif", &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5}}},
		{Sparse, "postings", &index.Postings{}},
		{Sparse, "lcif", model},
		{Sparse, "linear", &index.LabelTree{Seed: s.Seed}},
		{Sparse, "auto", &index.Auto{Seed: s.Seed, LCIF: model, LabelTree: &index.LabelTree{}}},
		{Sparse, "tree", &index.Trees{Kind: "at", Params: budget.Params{BAC: budget.BACParams{Budget: 3, Rounds: 2}}, Seed: s.Seed}},
	}
}

// BackupPath is where the step Backup puts the copy of the database at path.
func BackupPath(path string) string { return path + ".backup" }

// backup writes a copy, syncs it and gives it its name.
func backup(ctx context.Context, d *db.DB) error {
	tmp := BackupPath(d.Path()) + ".tmp"
	f, err := os.Create(tmp)
	if err != nil {
		return err
	}
	if _, err = d.Backup(ctx, f); err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, BackupPath(d.Path()))
}

// Plan says how Run goes about.
type Plan struct {
	// Every is after how many batches a step is taken; zero means none.
	Every int
	// Steps are taken in turn.
	Steps []string
	// Until is the number of batches at which to stop; zero means never.
	Until int
}

// Run makes the collections and goes on with the batches where the file ends,
// until the plan, the context or an error ends it. acked is called when a batch
// is durable, with the number of batches there are now, and with the name of
// every step that ended well.
func (s Script) Run(ctx context.Context, d *db.DB, p Plan, acked func(batches int, step string)) error {
	if err := s.Create(ctx, d); err != nil {
		return err
	}
	n, err := Batches(d)
	if err != nil {
		return err
	}
	for p.Until == 0 || n < p.Until {
		if err := s.Apply(ctx, d, n); err != nil {
			return err
		}
		n++
		acked(n, "")
		if p.Every > 0 && n%p.Every == 0 {
			// By the number of batches, so that a file that is killed often gets all steps.
			step := p.Steps[(n/p.Every-1)%len(p.Steps)]
			switch err := s.Step(ctx, d, step); {
			case errors.Is(err, budget.ErrInput):
				// The rows of the first batches may have nothing to learn from.
			case err != nil:
				return fmt.Errorf("%s: %w", step, err)
			default:
				acked(n, step)
			}
		}
	}
	return nil
}
