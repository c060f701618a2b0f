package channel

import "context"

// Channel is one kind of outside system. Implementations MUST be safe for concurrent use.
type Channel interface {
	// IdempotencyToken makes what identifies the effect to the outside system: a key, or the exact bytes where they
	// must be frozen before the first send. It MUST NOT change the outside system. A derived token (see
	// [TokenKind]) MUST be a pure function of the intent. An error of type [*RejectedError] says that the
	// payload can never be sent; any other error means "not made, try again".
	IdempotencyToken(ctx context.Context, request TokenRequest) (Token, error)

	// Send makes the effect, at most once. It MUST call a.Begin right before the last step that makes the effect, on
	// a connection that is open already, MUST stop if Begin returns an error (and return that error), and MUST NOT
	// retry, redial or follow a redirect after it. It MUST send the bytes of the newest token where the token
	// is allocated.
	//
	// It returns a [Delivered], [Accepted], [FailedOutside] or [SuccessorWanted] outcome, or a [*NotSentError],
	// [*RejectedError] or [*AmbiguousError]. Whatever else it returns is taken as ambiguous.
	Send(ctx context.Context, a Attempt) (Outcome, error)

	// Probe asks the outside system what became of the effect, for every token version in a.Tokens. It MUST NOT
	// change the outside system. An error is taken as [UnknownFinding]; one that wraps [ErrNotAsked] is no finding at all.
	Probe(ctx context.Context, a Attempt) (Finding, error)
}
