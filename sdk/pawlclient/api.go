package pawlclient

import (
	"context"
	"encoding/json"
	"time"
)

// API is everything that the service does, in Go. [Client] does it over HTTP. Errors that a caller decides on are [*Problem].
// All methods are safe for concurrent use.
type API interface {
	Claim(ctx context.Context, c Claim) (ClaimResult, error)
	ClaimAll(ctx context.Context, claims []Claim) (ClaimBatch, error)
	Intent(ctx context.Context, k Key, withPayload bool) (Detail, error)
	Intents(ctx context.Context, f IntentFilter) (IntentPage, error)
	// Wait returns when the intent has ended or is held, or after at most timeout with what is known then: see [Intent.Ended].
	Wait(ctx context.Context, k Key, timeout time.Duration) (Intent, error)

	Cancel(ctx context.Context, k Key, c Cancel) (Intent, error)
	Resolve(ctx context.Context, k Key, r Resolve) (Intent, error)
	Redrive(ctx context.Context, k Key, r Redrive) (ClaimResult, error)

	Channels(ctx context.Context) ([]Channel, error)
	Channel(ctx context.Context, name string) (Channel, error)
	PauseChannel(ctx context.Context, name, by, reason string) (Channel, error)
	ResumeChannel(ctx context.Context, name, by string) (Channel, error)
	SetFlag(ctx context.Context, name, by, flag string) (Channel, error)

	CreateRun(ctx context.Context, r NewRun) (run Run, created bool, err error)
	Run(ctx context.Context, id string) (Run, error)
	CancelRun(ctx context.Context, id string, c Cancel) (Run, error)
	AcquireLease(ctx context.Context, runID string, a AcquireLease) (Lease, error)
	RenewLease(ctx context.Context, r RenewLease) (Lease, error)
	VerifyLease(ctx context.Context, l Lease) error
	ReleaseLease(ctx context.Context, r ReleaseLease) error

	Receipts(ctx context.Context, f ReceiptFilter) (ReceiptPage, error)
	Receipt(ctx context.Context, id string) (Receipt, error)
	VerifyReceipt(ctx context.Context, envelope json.RawMessage) (Verdict, error)
	ReceiptKey(ctx context.Context) (PublicKey, error)

	Stats(ctx context.Context) (Stats, error)
	Engines(ctx context.Context) ([]Engine, error)

	Epochs(ctx context.Context) ([]Epoch, error)
	OpenEpoch(ctx context.Context, o OpenEpoch) (Epoch, error)
	Prune(ctx context.Context, p Prune) (Pruned, error)
	APITokens(ctx context.Context) ([]APIToken, error)
	CreateAPIToken(ctx context.Context, n NewAPIToken) (IssuedAPIToken, error)
	RevokeAPIToken(ctx context.Context, id, by string) (APIToken, error)
	Audit(ctx context.Context, limit int, after string) (AuditPage, error)
}
