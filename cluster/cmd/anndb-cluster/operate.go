package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/anndb/anndb/client"
	"github.com/anndb/anndb/cluster/operate"
	"github.com/anndb/anndb/cluster/shardlog"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/wire"
)

// moveCmd moves a replica.
type moveCmd struct {
	Shard string `arg:""`
	To    string `arg:"" help:"The node that gets a replica."`
	From  string `help:"The replica that leaves; without it the shard has one more."`
}

func (c *moveCmd) Run(a *app, log *shardlog.Cluster) error {
	return operate.Move(a.ctx, log, c.Shard, c.From, c.To)
}

// removeCmd removes a replica.
type removeCmd struct {
	Shard string `arg:""`
	Node  string `arg:"" help:"The node that has a replica, or is joining."`
}

func (c *removeCmd) Run(a *app, log *shardlog.Cluster) error {
	return operate.Remove(a.ctx, log, c.Shard, c.Node)
}

// rebalanceCmd moves replicas until they are spread evenly.
type rebalanceCmd struct {
	DryRun bool          `help:"Only print the moves."`
	Wait   time.Duration `default:"1m" help:"How long nodes that are down or fail may take to be ready again."`
}

func (c *rebalanceCmd) Run(a *app, log *shardlog.Cluster) error {
	steps, err := operate.Rebalance(a.ctx, log, c.Wait)
	for i := 0; i < len(steps) && err == nil; i++ {
		if fmt.Fprintln(a.out, steps[i]); !c.DryRun {
			err = operate.Move(a.ctx, log, steps[i].Shard, steps[i].From, steps[i].To)
		}
	}
	return err
}

// splitCmd splits a shard.
type splitCmd struct {
	Shard string `arg:""`
}

func (c *splitCmd) Run(a *app, log *shardlog.Cluster) error {
	return operate.Split(a.ctx, log, c.Shard)
}

// recoverCmd gives a shard a new log.
type recoverCmd struct {
	Shard string `arg:""`
}

func (c *recoverCmd) Run(a *app, log *shardlog.Cluster) error {
	return operate.Recover(a.ctx, log, c.Shard)
}

// backupCmd copies the file of a replica of each shard.
type backupCmd struct {
	Folder string `arg:"" help:"A new folder for the files, one of each shard."`
}

func (c *backupCmd) Run(a *app, log *shardlog.Cluster) error {
	m, err := log.Map(a.ctx)
	if err != nil {
		return err
	}
	if err := os.Mkdir(c.Folder, 0o700); err != nil {
		return err
	}
	var made []string
	for _, s := range m.Shards {
		made = append(made, s.ID+".anndb")
		address, err := a.latest(log, &s)
		var n int64
		if err == nil {
			n, err = a.backup(s.ID, address, filepath.Join(c.Folder, s.ID+".anndb"))
		}
		if err != nil {
			return fmt.Errorf("shard %s: %w", s.ID, err)
		}
		fmt.Fprintf(a.out, "shard %s: %d bytes\n", s.ID, n)
	}
	return writeJSON(filepath.Join(c.Folder, completeName), made)
}

// latest returns the address of the node that has applied most of a shard: all that its log has now, if
// a node says so during a Lease. Writes that were acknowledged are in no other one for sure.
func (a *app) latest(log *shardlog.Cluster, s *shardlog.Shard) (address string, err error) {
	var has shardlog.State
	if l, err := log.OpenLog(a.ctx, s); err == nil { // otherwise it is lost
		has, _ = l.State(a.ctx)
	}
	for end := time.Now().Add(shardlog.Lease); ; {
		_, nodes, err := operate.Look(a.ctx, log)
		most := uint64(0)
		for _, id := range s.Replicas {
			st := nodes[id].Shards[s.ID]
			if st.State == shardlog.Following && st.Epoch == s.Epoch && st.Sequence >= most {
				most, address = st.Sequence, nodes[id].Address
			}
		}
		switch late := time.Now().After(end); {
		case err != nil || address != "" && most >= has.Last || late && address != "":
			return address, err
		case late:
			return "", errors.New("no node serves it")
		}
		if err := shardlog.Pause(a.ctx, shardlog.Lease/100); err != nil {
			return "", err
		}
	}
}

// backup writes a copy of the file that a node has of a shard.
func (a *app) backup(shard, address, path string) (n int64, err error) {
	c, err := a.client(address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	w, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	n, err = c.File(shard).Backup(a.ctx, w)
	return n, errors.Join(err, w.Sync(), w.Close())
}

// completeName is the file of a backup that is written last: the names of the others.
const completeName = "complete.json"

// restoreCmd stores the collections of a backup.
type restoreCmd struct {
	Folder string `arg:"" help:"That of a backup, also of a cluster with other shards."`
}

func (c *restoreCmd) Run(a *app, f client.File) error {
	var names []string
	body, err := os.ReadFile(filepath.Join(c.Folder, completeName))
	if err == nil {
		err = wire.Unmarshal(body, &names)
	}
	if err != nil {
		return fmt.Errorf("%s is no complete backup of a cluster: %w", c.Folder, err)
	}
	present := map[string]bool{}
	for _, name := range names {
		path := filepath.Join(c.Folder, name)
		if err := restore(a, f, path, present); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// restore stores the rows of a file in collections that it makes unless they are
// present.
func restore(a *app, f client.File, path string, present map[string]bool) error {
	d, err := db.Open(a.ctx, path, &db.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer d.Close()
	st, err := d.Stats()
	if err != nil {
		return err
	}
	for _, info := range st.Collections {
		if strings.HasPrefix(info.Name, ".") {
			continue
		}
		made := present[info.Name]
		present[info.Name] = true
		if !made {
			if _, err := f.Create(a.ctx, info.Name, info.Schema); err != nil {
				return err
			}
		}
		coll := f.Collection(info.Name)
		n, err := coll.Load(a.ctx, d.Collection(info.Name).Rows(a.ctx, nil), nil)
		if err != nil {
			return fmt.Errorf("collection %q, after at least %d rows: %w", info.Name, n, err)
		}
		fmt.Fprintf(a.out, "%s: %d rows of %s\n", path, n, info.Name)
	}
	return nil
}
