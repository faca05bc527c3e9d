package evaluation

import (
	"errors"
	"fmt"
	"slices"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/queries"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/report"
	"github.com/anndb/anndb/labels"
)

// probabilities adds the expected calibration error of the best labels, whose predictions are given, and what
// sets of each recall find that the model can promise. A model without probabilities has no error, and
// refuses recalls.
func (t *labelTest) probabilities(
	c *Evaluate, x *answers, add func(name string, value float64, zero any),
) error {
	model := x.Options.Index
	var top labels.Reliability
	known := false
	for i, list := range x.found {
		if len(list) > 0 {
			known = known || list[0].Probability > 0
			top.Add(list[0].Probability, slices.Contains(t.q[i].Labels, list[0].Label))
		}
	}
	if known {
		add("calibration error", top.Error(), nil)
		t.reliable = append(t.reliable, report.Reliable{Model: model, Top: &top})
	}
	for _, recall := range c.Recall {
		o := &db.PredictOptions{Index: model, Recall: recall}
		p := queries.Predicting{App: x.App, Snapshot: x.Snapshot, Info: t.info, Options: o, Workers: c.Threads,
			Stage: fmt.Sprintf("predict for recall %g", recall)}
		sets, err := p.All(t.q)
		if errors.Is(err, labels.ErrRecall) {
			x.App.Note("%s", command.Message(err))
			continue
		}
		if err != nil {
			return err
		}
		share, rows, size := 0., 0, 0
		for i, list := range sets {
			size += len(list)
			if len(t.q[i].Labels) == 0 {
				continue
			}
			hits := 0
			for _, p := range list {
				if slices.Contains(t.q[i].Labels, p.Label) {
					hits++
				}
			}
			share += float64(hits) / float64(len(t.q[i].Labels))
			rows++
		}
		add(fmt.Sprintf("recall at %g", recall), share/float64(max(1, rows)), nil)
		add(fmt.Sprintf("predicted a row at %g", recall), float64(size)/float64(len(sets)), nil)
	}
	return nil
}
