package ledger

import "context"

// DuplicatesAcceptable are the words by which a person allows that an effect may take place twice.
const DuplicatesAcceptable = "duplicates are acceptable"

// Redrives claims abandoned intents again.
type Redrives interface {
	// Redrive claims the abandoned intent again under a new key, linked to it, in one transaction. The new key is the old one with
	// "#2" behind it, or the next number. An intent that was redriven before is deduplicated to the one that was made then. What
	// is refused: an intent that has not ended ([*RefusedError]), one that is committed or took effect later, one that is
	// unknown where r.AcceptDuplicates is not [DuplicatesAcceptable], one whose payload was pruned; and whatever Claim refuses.
	Redrive(ctx context.Context, r Redrive) (ClaimResult, error)
	// Links returns what the intent was redriven from and as; empty where there is nothing.
	Links(ctx context.Context, k Key) (of, as string, err error)
}

// Redrive asks for a new claim of an abandoned intent.
type Redrive struct {
	Key
	By, Reason       string // both required
	AcceptDuplicates string
	Approval         *Approval // where the channel requires one: for the new key
}
