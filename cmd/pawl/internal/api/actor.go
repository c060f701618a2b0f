package api

import "context"

// Actor is who acts: a person at a command line, or the holder of an API token.
type Actor struct {
	Name    string
	TokenID string // empty for a person
}

type actorKey struct{}

// WithActor says who acts in what is done under the context.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// acting is who acts, and the name that is written beside the action: the one that was given, or the actor's own.
func (s *Service) acting(ctx context.Context, by string) (Actor, string, error) {
	a, ok := ctx.Value(actorKey{}).(Actor)
	if !ok {
		a = s.actor
	}
	if by == "" {
		by = a.Name
	}
	if by == "" {
		return a, "", invalid("body.by", "is missing: say who does it")
	}
	if a.Name == "" {
		a.Name = by
	}
	return a, by, checkText("body.by", by, maxBy)
}
