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

	_ "modernc.org/sqlite"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/sqlite"
)

// exampleLedger is a new ledger with one channel.
func exampleLedger(ctx context.Context) (l *sqlite.Ledger, path string, end func()) {
	folder, err := os.MkdirTemp("", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	path = filepath.Join(folder, "ledger.db")
	if _, err := sqlite.Migrate(ctx, sqlite.Options{Path: path}); err != nil {
		log.Fatal(err)
	}
	if l, err = sqlite.Open(ctx, sqlite.Options{Path: path}); err != nil {
		log.Fatal(err)
	}
	if err := l.PutChannel(ctx, ledger.ChannelRow{Name: "mail", Kind: "mail", Sheet: channel.Sheet{Kind: "mail"}, Flag: ledger.FlagOn}); err != nil {
		log.Fatal(err)
	}
	return l, path, func() {
		if err := errors.Join(l.Close(), os.RemoveAll(folder)); err != nil {
			log.Fatal(err)
		}
	}
}

// An order and the mail that confirms it are written together, or not at all. A second run of the same code finds the claim of the first.
func ExampleTx() {
	ctx := context.Background()
	l, path, end := exampleLedger(ctx)
	defer end()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec("CREATE TABLE orders (id TEXT PRIMARY KEY)"); err != nil {
		log.Fatal(err)
	}

	confirm := func(order string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.Exec("INSERT INTO orders VALUES (?) ON CONFLICT DO NOTHING", order); err != nil {
			return err
		}
		results, err := l.Claim(ctx, sqlite.Tx(tx), ledger.Claim{
			RunID: "6f1c2a54-5b8e-4a35-9d0e-3c1f7a9b2d10", EffectKey: "mail:confirm-" + order, Channel: "mail",
			Payload: []byte(`{"to":"ann@example.org","subject":"Your order"}`),
		})
		if err != nil {
			return err
		}
		fmt.Println(order, results[0].Status)
		return tx.Commit()
	}
	for range 2 {
		if err := confirm("A-17"); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// A-17 new
	// A-17 deduplicated
}

// The same key with another payload is another effect under a name that is taken.
func ExampleLedger_Claim_conflict() {
	ctx := context.Background()
	l, _, end := exampleLedger(ctx)
	defer end()
	for _, subject := range []string{"Hello", "Good morning"} {
		err := l.InTx(ctx, func(tx ledger.Tx) error {
			_, err := l.Claim(ctx, tx, ledger.Claim{
				RunID: "6f1c2a54-5b8e-4a35-9d0e-3c1f7a9b2d10", EffectKey: "mail:greeting", Channel: "mail",
				Payload: []byte(`{"to":"ann@example.org","subject":"` + subject + `"}`),
			})
			return err
		})
		var conflict *ledger.KeyConflictError
		fmt.Println(subject, errors.As(err, &conflict))
	}
	// Output:
	// Hello false
	// Good morning true
}

// What an engine does with an intent, step by step.
func ExampleLedger_Move() {
	ctx := context.Background()
	l, _, end := exampleLedger(ctx)
	defer end()
	err := l.InTx(ctx, func(tx ledger.Tx) error {
		_, err := l.Claim(ctx, tx, ledger.Claim{
			RunID: "6f1c2a54-5b8e-4a35-9d0e-3c1f7a9b2d10", EffectKey: "mail:greeting", Channel: "mail", Payload: []byte(`{"to":"ann@example.org"}`),
		})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	batch, err := l.Fence(ctx, ledger.FenceRequest{Channel: "mail", Limit: 10, Fence: ledger.Fence{Owner: "engine-1", TTL: time.Minute}})
	if err != nil {
		log.Fatal(err)
	}
	i := batch.Dispatches[0].Intent
	fmt.Println(i.State)
	_, err = l.Move(ctx, i.Key, ledger.Stamp{
		Fence: i.Fence(), Token: &channel.Token{Version: 1, Data: []byte("<greeting@example.org>")},
		SendTimeout: 20 * time.Second, CommitBound: 5 * time.Second, Margin: 2 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	// … the one external call …
	r, err := l.Move(ctx, i.Key, ledger.Commit{Fence: i.Fence(), Evidence: channel.Evidence{ID: "queued as 4F1"}, Established: ledger.BySend})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Intent.State, string(r.Intent.Evidence))
	// Output:
	// dispatched
	// committed {"id":"queued as 4F1"}
}

// A function of this program that must run once, though two places may try.
func ExampleLedger_RecordOnce() {
	ctx := context.Background()
	l, _, end := exampleLedger(ctx)
	defer end()
	const run = "6f1c2a54-5b8e-4a35-9d0e-3c1f7a9b2d10"
	for range 2 {
		err := l.InTx(ctx, func(tx ledger.Tx) error {
			first, err := l.RecordOnce(ctx, tx, run, "welcome", time.Hour)
			fmt.Println(first)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := l.Finish(ctx, run, "welcome", channel.Evidence{}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// true
	// false
}
