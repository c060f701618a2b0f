package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/sqlite"
)

// A host has its jobs, and who works on them, in a table of its own. A worker whose job was given to another claims nothing more.
func ExampleOptions_leases() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.db")
	if _, err := sqlite.Migrate(ctx, sqlite.Options{Path: path}); err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	exec := func(query string, args ...any) {
		if _, err := db.ExecContext(ctx, query, args...); err != nil {
			log.Fatal(err)
		}
	}
	exec("CREATE TABLE jobs (id TEXT PRIMARY KEY, worker TEXT, token INTEGER, leased_until TEXT, state TEXT)")

	l, err := sqlite.Open(ctx, sqlite.Options{
		Path: path,
		Leases: &fence.Table{
			Name: "jobs", RunID: "id", Owner: "worker", Number: "token", ExpiresAt: "leased_until",
			Status: "state", Live: []string{"running"},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	if err := l.PutChannel(ctx, ledger.ChannelRow{Name: "mail", Kind: "mail", Sheet: channel.Sheet{Kind: "mail"}}); err != nil {
		log.Fatal(err)
	}

	const job = "6f1c2a54-5b8e-4a35-9d0e-3c1f7a9b2d10"
	now, err := l.Now(ctx) // the ledger's clock decides
	if err != nil {
		log.Fatal(err)
	}
	exec("INSERT INTO jobs VALUES (?, 'ann', 1, ?, 'running')", job, now.Add(time.Minute).Format(time.RFC3339Nano))
	claim := func(owner string, number int64, key string) {
		err := l.InTx(ctx, func(tx ledger.Tx) error {
			_, err := l.Claim(ctx, tx, ledger.Claim{
				RunID: job, EffectKey: key, Channel: "mail", Payload: []byte(`{}`),
				Lease: &fence.Lease{RunID: job, Fence: fence.Fence{Owner: owner, Number: number}},
			})
			return err
		})
		fmt.Println(owner, key, "lost:", errors.Is(err, fence.ErrLost), "refused:", err != nil)
	}
	claim("ann", 1, "mail:first")
	exec("UPDATE jobs SET worker = 'bob', token = token + 1 WHERE id = ?", job) // ann was silent for too long
	claim("ann", 1, "mail:second")
	claim("bob", 2, "mail:second")
	// Output:
	// ann mail:first lost: false refused: false
	// ann mail:second lost: true refused: true
	// bob mail:second lost: false refused: false
}
