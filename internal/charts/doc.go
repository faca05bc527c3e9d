// Package charts makes charts of what a database holds: the settings that its tuner measured, how
// often labels occur, how large leaves are, where rows lie.
package charts
