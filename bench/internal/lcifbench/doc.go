// Package lcifbench repeats the experiments of Feremans et al. (LCIF, 2020) on public
// data: the quality of predicted labels next to the paper's (Tables 2 and 3). Results are
// plain rows; who prints them is not its concern.
//
// Settings are chosen on the training part, or on the development part where
// there is one. Test rows are predicted once per chosen setting, after that.
package lcifbench
