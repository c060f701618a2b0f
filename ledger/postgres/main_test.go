package postgres_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
	"github.com/pawlworks/pawl/ledger/postgres"
	"github.com/pawlworks/pawl/receipt"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const mail = "mail/test"

// sheet is a channel that can prove anything.
func sheet() channel.Sheet {
	return channel.Sheet{
		Kind: "mail", Version: "1", Token: channel.TokenDerived, Replay: channel.ReplayForEver, Probe: channel.ProbeExact,
		NegativeProof: true, Begin: true, EvidenceNamesOneEffect: true,
	}
}

func signer(t testing.TB) ledger.Signer {
	t.Helper()
	key, err := receipt.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := receipt.NewIssuer(receipt.Options{Name: "test", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open migrates a fresh database and opens a ledger with one channel on it.
func open(t testing.TB, change ...func(*postgres.Options)) (*postgres.Ledger, string) {
	t.Helper()
	url := pgtest.Database(t)
	return openAt(t, url, change...), url
}

func openAt(t testing.TB, url string, change ...func(*postgres.Options)) *postgres.Ledger {
	t.Helper()
	ctx := t.Context()
	if _, err := postgres.Migrate(ctx, postgres.MigrateOptions{URL: url}); err != nil {
		t.Fatal(err)
	}
	o := postgres.Options{URL: url, Signer: signer(t)}
	for _, f := range change {
		f(&o)
	}
	l, err := postgres.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := l.PutChannel(ctx, ledger.ChannelRow{Name: mail, Kind: "mail", Sheet: sheet()}); err != nil {
		t.Fatal(err)
	}
	return l
}

func pool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func newRun() string { return uuid.NewString() }

func newClaim(key string) ledger.Claim {
	return ledger.Claim{RunID: newRun(), EffectKey: key, Channel: mail, Payload: json.RawMessage(`{"to":"a@example.com"}`)}
}

func claim(t testing.TB, l *postgres.Ledger, claims ...ledger.Claim) []ledger.ClaimResult {
	t.Helper()
	var out []ledger.ClaimResult
	err := l.InTx(context.WithoutCancel(t.Context()), func(tx ledger.Tx) (err error) {
		out, err = l.Claim(t.Context(), tx, claims...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func fenceRequest(limit int) ledger.FenceRequest {
	return ledger.FenceRequest{Fence: ledger.Fence{Owner: "engine-1", TTL: time.Minute}, Channel: mail, Limit: limit}
}

func take(t testing.TB, l *postgres.Ledger, limit int) ledger.FenceResult {
	t.Helper()
	r, err := l.Fence(t.Context(), fenceRequest(limit))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func move(t testing.TB, l *postgres.Ledger, k ledger.Key, m ledger.Move) ledger.Result {
	t.Helper()
	r, err := l.Move(t.Context(), k, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func stampOf(d ledger.Dispatch) ledger.Stamp {
	return ledger.Stamp{
		Fence: d.Intent.Fence(), Token: &channel.Token{Version: 1, Data: []byte(d.Intent.Key.String())}, Sheet: sheet(),
		SendTimeout: 20 * time.Second, CommitBound: 5 * time.Second, Margin: time.Second,
	}
}

// send stamps and commits a dispatch.
func send(t testing.TB, l *postgres.Ledger, d ledger.Dispatch) ledger.Result {
	t.Helper()
	stamped := move(t, l, d.Intent.Key, stampOf(d))
	return move(t, l, d.Intent.Key, ledger.Commit{
		Fence: stamped.Intent.Fence(), Evidence: channel.Evidence{ID: d.Intent.Key.String()}, Established: ledger.BySend,
	})
}
