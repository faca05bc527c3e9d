package attribute

import (
	"fmt"
	"time"
)

// Type is the type of an attribute's values in a collection, as the catalog names it. Values of one
// type are ordered; integers and floats are one type.
type Type string

// The types. An attribute that no row has ever had has none.
const (
	NoType     Type = ""
	BoolType   Type = "bool"
	NumberType Type = "number"
	TimeType   Type = "time"
	StringType Type = "string"
)

// TypeOf returns the type of a value that Normalize has returned.
func TypeOf(v any) Type {
	switch v.(type) {
	case bool:
		return BoolType
	case int64, float64:
		return NumberType
	case time.Time:
		return TimeType
	case string:
		return StringType
	}
	panic(fmt.Sprintf("attribute: %T is no normalized value", v))
}

// Valid reports whether t is the type of an attribute.
func (t Type) Valid() bool {
	return t == BoolType || t == NumberType || t == TimeType || t == StringType
}
