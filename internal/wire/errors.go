package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/anndb/anndb/db"
)

// Errors of requests, besides those of package db.
var (
	ErrJSON         = fmt.Errorf("%w: JSON", db.ErrInvalid)
	ErrChanged      = errors.New("the row has another version")
	ErrBusy         = errors.New("too many requests at once")
	ErrUnauthorized = errors.New("no token, or a wrong one")
	ErrForbidden    = errors.New("forbidden")
	ErrSlow         = errors.New("the client is too slow")
	ErrCut          = errors.New("the body is incomplete")
	ErrTooLarge     = errors.New("the body is too large")
	ErrType         = errors.New("wrong type of content")
	ErrMethod       = errors.New("wrong method")
	ErrRoute        = errors.New("no such route")
	ErrEnding       = errors.New("the server ends")
	ErrUnavailable  = errors.New("no node can answer") // of a cluster
	ErrNotBuilt     = errors.New("not possible in a cluster")
)

// codes are the names of errors and their statuses. Of the errors that one wraps, the first decides.
var codes = []struct {
	err    error
	name   string
	status int
}{
	{ErrJSON, "invalid_json", http.StatusBadRequest},
	{ErrChanged, "changed", http.StatusPreconditionFailed},
	{ErrBusy, "busy", http.StatusTooManyRequests},
	{ErrUnauthorized, "unauthorized", http.StatusUnauthorized},
	{ErrForbidden, "forbidden", http.StatusForbidden},
	{ErrSlow, "slow", http.StatusRequestTimeout},
	{ErrCut, "cut", http.StatusBadRequest},
	{ErrTooLarge, "too_large", http.StatusRequestEntityTooLarge},
	{ErrType, "wrong_type", http.StatusUnsupportedMediaType},
	{ErrMethod, "wrong_method", http.StatusMethodNotAllowed},
	{ErrRoute, "no_route", http.StatusNotFound},
	{ErrEnding, "ending", http.StatusServiceUnavailable},
	{ErrUnavailable, "unavailable", http.StatusServiceUnavailable},
	{ErrNotBuilt, "not_in_cluster", http.StatusNotImplemented},
	{db.ErrUnknownState, "unknown_state", http.StatusInternalServerError},
	{db.ErrNotFound, "not_found", http.StatusNotFound},
	{db.ErrExists, "exists", http.StatusConflict},
	{db.ErrUnsuitable, "unsuitable", http.StatusUnprocessableEntity},
	{db.ErrReadOnly, "read_only", http.StatusForbidden},
	{db.ErrCorrupt, "corrupt", http.StatusInternalServerError},
	{db.ErrNotDatabase, "not_database", http.StatusInternalServerError},
	{db.ErrReplaced, "replaced", http.StatusInternalServerError},
	{db.ErrLinked, "linked", http.StatusConflict},
	{db.ErrNoSpace, "no_space", http.StatusInsufficientStorage},
	{db.ErrLocked, "locked", http.StatusServiceUnavailable},
	{db.ErrClosed, "closed", http.StatusServiceUnavailable},
	{db.ErrInvalid, "invalid", http.StatusBadRequest},
	{context.DeadlineExceeded, "deadline", http.StatusGatewayTimeout},
	{context.Canceled, "canceled", http.StatusServiceUnavailable},
}

// Error is the error of a request: its code stands for one of the errors above or of package db, which it
// wraps, so that errors.Is finds it at the other end as well.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Rows is the number of rows that an import has stored before the error.
	Rows int `json:"rows,omitempty"`
	// Status is that of the answer.
	Status int `json:"-"`
}

// Failure is the body of an answer that is an error.
type Failure struct {
	Error *Error `json:"error"`
}

// NewError returns the form of an error. One that wraps none of the known ones is "internal".
func NewError(err error) *Error {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return &Error{Code: c.name, Message: err.Error(), Status: c.status}
		}
	}
	return &Error{Code: "internal", Message: err.Error(), Status: http.StatusInternalServerError}
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the error that the code stands for, nil if the code is unknown.
func (e *Error) Unwrap() error {
	for _, c := range codes {
		if c.name == e.Code {
			return c.err
		}
	}
	return nil
}
