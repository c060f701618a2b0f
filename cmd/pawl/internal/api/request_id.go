package api

import (
	"context"
	"regexp"

	"github.com/google/uuid"
)

type requestIDKey struct{}

// requestID names the request in answers and in the log.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// newRequestID keeps an id that came with the request, so that it can be found in the logs of both sides, if it is plain.
func newRequestID(given string) string {
	if len(given) <= 64 && regexp.MustCompile(`^[A-Za-z0-9._-]+$`).MatchString(given) {
		return given
	}
	return uuid.NewString()
}
