package query

import "testing"

// Every setting of the sweep runs on views of all parts, and some use the natural classifier of the paper with
// a threshold above zero.
func TestSweepSettings(t *testing.T) {
	f := small()
	for name, v := range map[string]*View{
		"full":     f.v,
		"sketches": f.with(func(v *View) { v.Neighbors = nil }),
		"lists":    f.with(func(v *View) { v.Sketch = nil }),
		"bare":     f.with(func(v *View) { v.Sketch, v.Neighbors = nil, nil }),
		"members":  f.with(func(v *View) { g := *v.Forest; g.LeafDir = nil; v.Forest = &g }),
	} {
		u := &tuner{m: meter{v: v, k: 10}}
		for kind, settings := range map[string][]Params{"elections": u.elections(), "beside beams": u.besideBeams()} {
			thresholds := 0
			for _, p := range settings {
				if err := p.checkSetting(&v.Segment); err != nil {
					t.Errorf("%s, %s: %v", name, kind, err)
				}
				if p.Tau > 0 || p.Votes > 1 {
					thresholds++
				}
			}
			if thresholds == 0 {
				t.Errorf("%s, %s: no threshold above zero", name, kind)
			}
		}
	}
}
