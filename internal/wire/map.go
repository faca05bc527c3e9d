package wire

// Map has places of rows of a collection in the plane: two principal coordinates of their vectors.
type Map struct {
	Rows []Place `json:"rows"`
}

// Place is that of a row.
type Place struct {
	Key
	Label string  `json:"label,omitempty"` // the first one of the row
	X     float32 `json:"x"`
	Y     float32 `json:"y"`
}
