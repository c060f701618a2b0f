package sqlite_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
)

// openEpoch opens the next epoch as a person would, with a horizon.
func openEpoch(t *testing.T, path string, horizon time.Duration) {
	t.Helper()
	_, err := openPlain(t, path).Exec("INSERT INTO ledger_epochs (ledger_id, epoch, horizon) SELECT ledger_id, max(epoch) + 1, ? FROM ledger_epochs",
		time.Now().Add(horizon).UTC().Format("2006-01-02T15:04:05.000000Z"))
	if err != nil {
		t.Fatal(err)
	}
}

func TestInANewEpochOldFencesMatchNothing(t *testing.T) {
	path := newPath(t)
	l := openPath(t, path)
	putChannel(t, l, "mail")
	claimAll(t, l, newClaim(uuid.NewString()))
	i := fenceOne(t, l)
	_, lease := leasedRun(t, l)
	openEpoch(t, path, -time.Hour)
	token := channel.Token{Version: 1, Data: []byte("x")}
	_, err := l.Move(t.Context(), i.Key, ledger.Stamp{Fence: i.Fence(), Token: &token, SendTimeout: 1, CommitBound: 1, Margin: 1})
	wants(t, err, ledger.ErrFenceLost)
	if err := l.VerifyLease(t.Context(), lease); err == nil {
		t.Error("a lease of the epoch before verifies")
	}
	if epoch, err := l.Epoch(t.Context()); err != nil || epoch != 2 {
		t.Errorf("the epoch is %d (%v)", epoch, err)
	}
}

func TestUntilTheHorizonNewClaimsAreProbedFirst(t *testing.T) {
	for horizon, probed := range map[time.Duration]bool{time.Hour: true, -time.Hour: false} {
		path := newPath(t)
		l := openPath(t, path)
		putChannel(t, l, "mail")
		openEpoch(t, path, horizon)
		if r := claimAll(t, l, newClaim(uuid.NewString())); r[0].Intent.ProbeFirst != probed {
			t.Errorf("with a horizon in %s a claim is probed first: %t", horizon, r[0].Intent.ProbeFirst)
		}
	}
}
