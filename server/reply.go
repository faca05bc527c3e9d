package server

import (
	"net/http"
	"time"

	"github.com/anndb/anndb/internal/wire"
)

// Reply is a handler for Options.Handlers that sends what the function returns: JSON that is encoded already,
// values, of nil only a status, and errors as a server does. After a stream that the function has sent it
// returns nil.
type Reply func(w http.ResponseWriter, r *http.Request) (any, error)

// Answer is what a Reply returns with a status that is not the usual one.
type Answer struct {
	Status int
	Value  any
}

// ServeHTTP implements http.Handler.
func (f Reply) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, ok := w.(*response)
	if !ok {
		a = newResponse(w, time.Minute)
	}
	out, err := f(a, r)
	answer, ok := out.(Answer)
	if !ok {
		answer = Answer{http.StatusOK, out}
	}
	body, encoded := answer.Value.([]byte)
	switch {
	case err != nil:
		a.fail(err)
	case encoded:
		a.send(answer.Status, wire.JSON, body)
	case answer.Value != nil:
		a.answer(answer.Status, answer.Value)
	case a.status != 0: // a stream
	case ok:
		a.WriteHeader(answer.Status)
	default:
		a.WriteHeader(http.StatusNoContent)
	}
}
