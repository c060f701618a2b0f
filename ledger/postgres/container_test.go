package postgres_test

import (
	"testing"

	"github.com/pawlworks/pawl/ledger/ledgertest"
	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
)

// TestLedgerInAContainer holds the way to a Postgres that a machine without one has, a container, to the promises that count most.
func TestLedgerInAContainer(t *testing.T) {
	c := pgtest.NewContainer(t)
	ledgertest.RunOnly(t, func(t *testing.T) ledgertest.Backend {
		url := c.Database(t)
		return backendAt(t, url, url, "")
	}, "claim", "commit and accept")
}
