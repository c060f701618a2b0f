package core_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"

	"github.com/pawlworks/pawl/core"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/sqlite"
)

// board is the outside system of these examples: it pins notes, and takes one with a token that it knows for the same.
type board struct{}

func (board) Sheet() channel.Sheet {
	return channel.Sheet{Kind: "note", Token: channel.TokenDerived, Replay: channel.ReplayForEver}
}

func (board) IdempotencyToken(_ context.Context, r channel.TokenRequest) (channel.Token, error) {
	return channel.Token{Data: []byte(r.Intent.RunID + " " + r.Intent.EffectKey)}, nil
}

func (board) Send(_ context.Context, a channel.Attempt) (channel.Outcome, error) {
	fmt.Println("pinned", string(a.Intent.Payload))
	return channel.Delivered(channel.Evidence{ID: "note-1"}), nil
}

func (board) Probe(context.Context, channel.Attempt) (channel.Finding, error) {
	return channel.UnknownFinding("a board cannot be asked"), nil
}

const exampleRun = "6f1c2a54-5b8e-4a35-9d0e-3c1f7a9b2d10"

func exampleClaim() ledger.Claim {
	return ledger.Claim{RunID: exampleRun, EffectKey: "note:lunch", Channel: "note", Payload: []byte(`{"text":"lunch at one"}`)}
}

// exampleEngine is an engine on a new ledger.
func exampleEngine(ctx context.Context) (e *core.Engine, l *sqlite.Ledger, path string, end func()) {
	folder, err := os.MkdirTemp("", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	path = filepath.Join(folder, "ledger.db")
	if _, err := sqlite.Migrate(ctx, sqlite.Options{Path: path}); err != nil {
		log.Fatal(err)
	}
	if l, err = sqlite.Open(ctx, sqlite.Options{Path: path, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		log.Fatal(err)
	}
	e, err = core.New(ctx, core.Options{
		Ledger:   l,
		Channels: []core.ChannelOptions{{Name: "note", Channel: board{}, Policy: core.Policy{Unknown: core.UnknownHold}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	return e, l, path, func() {
		if err := errors.Join(l.Close(), os.RemoveAll(folder)); err != nil {
			log.Fatal(err)
		}
	}
}

// An engine runs until its context ends. Whatever is claimed meanwhile, by any program, is sent once.
func ExampleEngine_Run() {
	ctx, stop := context.WithCancel(context.Background())
	e, _, _, end := exampleEngine(ctx)
	defer end()
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()

	results, err := e.Claim(ctx, exampleClaim())
	if err != nil {
		log.Fatal(err)
	}
	i, err := e.Wait(ctx, results[0].Key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(i.Outcome(), string(i.Evidence))

	stop()
	fmt.Println(<-ran)
	// Output:
	// pinned {"text":"lunch at one"}
	// committed {"id":"note-1"}
	// <nil>
}

// A configuration that cannot keep the promises is refused, with every fault in one error.
func ExampleNew_refused() {
	_, err := core.New(context.Background(), core.Options{
		Channels: []core.ChannelOptions{{Name: "note", Channel: board{}, Policy: core.Policy{SendTimeout: time.Minute}}},
	})
	fmt.Println(err)
	// Output:
	// configuration: ledger: is required
	// channel note: unknown: must be stated: hold (a person decides), abandon (at most once) or resend (at least once)
	// fence_ttl: send_timeout 1m0s + commit_bound 5s + margin 2s = 1m7s, which must be less than fence_ttl 1m0s; make it longer than 1m7s
}

// A note is claimed in the transaction that books the table: both, or neither. The engine is woken after the commit.
func ExampleEngine_Wake() {
	ctx, stop := context.WithCancel(context.Background())
	e, l, path, end := exampleEngine(ctx)
	defer end()
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec("CREATE TABLE tables (number INTEGER PRIMARY KEY)"); err != nil {
		log.Fatal(err)
	}

	book := func(number int) (k ledger.Key, err error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return k, err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.Exec("INSERT INTO tables VALUES (?)", number); err != nil {
			return k, err
		}
		results, err := l.Claim(ctx, sqlite.Tx(tx), exampleClaim())
		if err != nil {
			return k, err
		}
		return results[0].Key, tx.Commit()
	}
	k, err := book(4)
	if err != nil {
		log.Fatal(err)
	}
	e.Wake("note")
	i, err := e.Wait(ctx, k)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(i.Outcome())

	stop()
	<-ran
	// Output:
	// pinned {"text":"lunch at one"}
	// committed
}

// A caller that wants to see the end sends by itself. The same claim made again is told what became of the first.
func ExampleEngine_Do() {
	ctx := context.Background()
	e, _, _, end := exampleEngine(ctx)
	defer end()
	for range 2 {
		o, err := e.Do(ctx, exampleClaim())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(o.Text, o.Deduplicated)
	}
	// Output:
	// pinned {"text":"lunch at one"}
	// committed false
	// committed true
}

// Another program, without an engine, follows an intent to its end. Here nobody sends it, and the wait ends with its context.
func ExampleWait() {
	ctx := context.Background()
	_, l, _, end := exampleEngine(ctx)
	defer end()
	results, err := core.Claim(ctx, l, exampleClaim())
	if err != nil {
		log.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	i, err := core.Wait(short, l, results[0].Key)
	fmt.Println(i.Outcome(), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// in progress true
}

// A plain Go function that must run once, and never twice, keeps its result.
func ExampleGuard() {
	ctx := context.Background()
	_, l, _, end := exampleEngine(ctx)
	defer end()
	o := core.GuardOptions{RunID: exampleRun, Key: "draw the winner", Owner: "worker-1"}
	for range 2 {
		winner, err := core.Guard(ctx, l, o, func(context.Context) (json.RawMessage, error) {
			fmt.Println("drawing")
			return json.RawMessage(`"ann"`), nil
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(winner))
	}
	// Output:
	// drawing
	// "ann"
	// "ann"
}
