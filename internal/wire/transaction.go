package wire

import "encoding/json"

// Operations of a transaction.
const (
	Put    = "put"    // stores Row
	Insert = "insert" // stores Row, and fails if the key exists
	Update = "update" // replaces the parts of a row that Row has
	Delete = "delete"
)

// Transaction is a request to make all changes or none, if all conditions hold.
type Transaction struct {
	If         []Condition `json:"if,omitempty"`
	Operations []Operation `json:"operations"`
}

// Condition is that the row with a key has a version, or without a version that there is none.
type Condition struct {
	Collection string `json:"collection"`
	Key
	Version string `json:"version,omitempty"`
}

// Operation is a change of a row.
type Operation struct {
	Op         string `json:"op"`
	Collection string `json:"collection"`
	Key
	Row json.RawMessage `json:"row,omitempty"`
}

// Committed has the version of the row of each operation, "" for one that was deleted.
type Committed struct {
	Versions []string `json:"versions"`
}

// Stored is the answer to a change of a row.
type Stored struct {
	Version string `json:"version"`
}
