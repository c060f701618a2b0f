package api

import (
	"context"
	"strings"

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
	if given == "" || len(given) > 64 {
		return uuid.NewString()
	}
	for _, r := range given {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r) {
			return uuid.NewString()
		}
	}
	return given
}
