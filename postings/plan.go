package postings

// plan chooses a strategy by the query and the lengths of its lists.
func (ix *Index) plan(q []term) Strategy {
	switch {
	case ix.Uniform != nil || ix.Weighted != nil:
		return Compact
	case ix.Partition != nil && ix.Partition.TAATRows == 0:
		return DenseTAAT
	case ix.Partition != nil:
		return Partitioned
	}
	return Compact
}
