package api

import (
	"os"
	"testing"

	"github.com/pawlworks/pawl/ledger/ledgertest/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
