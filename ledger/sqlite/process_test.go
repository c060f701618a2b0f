package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/ledger"
	"github.com/pawlworks/pawl/ledger/sqlite"
)

// The test binary starts itself as other processes; this variable says as what.
const actAs = "PAWL_SQLITE_TEST_ACT"

func TestMain(m *testing.M) {
	act, found := map[string]func(path string) error{
		"migrate-and-claim": migrateAndClaim,
		"claim-for-ever":    claimForEver,
		"hold-the-lock":     holdTheLock,
	}[os.Getenv(actAs)]
	if !found {
		goleak.VerifyTestMain(m)
		return
	}
	if err := act(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func startProcess(t *testing.T, act, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], path)
	cmd.Env = append(os.Environ(), actAs+"="+act)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe() // held open: a process that reads it waits
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd, bufio.NewScanner(out)
}

const (
	processes  = 6
	claimsEach = 15
)

// migrateAndClaim is one of many processes that start at once on a file that is not there yet.
func migrateAndClaim(path string) (err error) {
	ctx := context.Background()
	o := sqlite.Options{Path: path, StatementTimeout: 30 * time.Second}
	if _, err := sqlite.Migrate(ctx, o); err != nil {
		return err
	}
	l, err := sqlite.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.PutChannel(ctx, ledger.ChannelRow{Name: "mail", Kind: "mail", Sheet: channel.Sheet{Kind: "mail"}}); err != nil {
		return err
	}
	run := uuid.NewString()
	for range claimsEach {
		if err := claimIn(ctx, l, run); err != nil {
			return err
		}
	}
	// The same effect in every process: one of them is first.
	shared := newClaim("11111111-1111-4111-8111-111111111111")
	shared.EffectKey = "mail:shared"
	return l.InTx(ctx, func(tx ledger.Tx) error {
		r, err := l.Claim(ctx, tx, shared)
		if err == nil {
			fmt.Println(l.ID(), r[0].Status)
		}
		return err
	})
}

func claimIn(ctx context.Context, l *sqlite.Ledger, run string) error {
	return l.InTx(ctx, func(tx ledger.Tx) error {
		_, err := l.Claim(ctx, tx, newClaim(run))
		return err
	})
}

func TestManyProcessesStartOnOneFileAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	type process struct {
		cmd *exec.Cmd
		out *bufio.Scanner
	}
	var all []process
	for range processes {
		cmd, out := startProcess(t, "migrate-and-claim", path)
		all = append(all, process{cmd, out})
	}
	ids, statuses := map[string]int{}, map[string]int{}
	for _, p := range all {
		for p.out.Scan() {
			id, status, _ := strings.Cut(p.out.Text(), " ")
			ids[id]++
			statuses[status]++
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("a process failed: %v", err)
		}
	}
	if len(ids) != 1 {
		t.Errorf("the processes saw ledger ids %v, want one", ids)
	}
	if statuses["new"] != 1 || statuses["deduplicated"] != processes-1 {
		t.Errorf("the shared effect was %v, want new once and deduplicated %d times", statuses, processes-1)
	}
	stats, err := openPath(t, path).Stats(t.Context())
	if err != nil || stats.Waiting != processes*claimsEach+1 {
		t.Errorf("%d intents wait (%v), want %d", stats.Waiting, err, processes*claimsEach+1)
	}
}

// claimForEver says each key after its claim was committed.
func claimForEver(path string) error {
	ctx := context.Background()
	l, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	if err != nil {
		return err
	}
	for {
		c := newClaim(uuid.NewString())
		if err := l.InTx(ctx, func(tx ledger.Tx) error {
			_, err := l.Claim(ctx, tx, c)
			return err
		}); err != nil {
			return err
		}
		fmt.Println(c.RunID, c.EffectKey)
	}
}

func TestWhatWasCommittedSurvivesAKill(t *testing.T) {
	path := newPath(t)
	putChannel(t, openPath(t, path), "mail")
	cmd, out := startProcess(t, "claim-for-ever", path)
	var said []ledger.Key
	for out.Scan() {
		run, key, _ := strings.Cut(out.Text(), " ")
		said = append(said, ledger.Key{RunID: run, EffectKey: key})
		if len(said) == 20 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process was to be killed and ended well")
	}
	l := openPath(t, path)
	for _, k := range said {
		if _, _, err := l.Intent(t.Context(), k); err != nil {
			t.Errorf("a claim that was committed before the kill: %v", err)
		}
	}
	if len(said) < 20 {
		t.Errorf("only %d claims were said", len(said))
	}
}

// holdTheLock claims and stays in the transaction until it is killed.
func holdTheLock(path string) error {
	ctx := context.Background()
	l, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	if err != nil {
		return err
	}
	return l.InTx(ctx, func(tx ledger.Tx) error {
		c := newClaim(uuid.NewString())
		if _, err := l.Claim(ctx, tx, c); err != nil {
			return err
		}
		fmt.Println(c.RunID, c.EffectKey)
		_, err := io.Copy(io.Discard, os.Stdin) // a pipe that the test never closes
		return err
	})
}

func TestAKilledWriterLeavesNoLockAndNothingHalf(t *testing.T) {
	path := newPath(t)
	l := openPath(t, path, func(o *sqlite.Options) { o.StatementTimeout = 200 * time.Millisecond })
	putChannel(t, l, "mail")
	cmd, out := startProcess(t, "hold-the-lock", path)
	if !out.Scan() {
		t.Fatal("the process said nothing")
	}
	run, key, _ := strings.Cut(out.Text(), " ")
	if err := l.SetPaused(t.Context(), "mail", true, "while another process writes"); err == nil {
		t.Error("a write went through beside another process's transaction")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if err := l.SetPaused(t.Context(), "mail", true, "after its end"); err != nil {
		t.Errorf("a write after the writer was killed: %v", err)
	}
	_, _, err := l.Intent(t.Context(), ledger.Key{RunID: run, EffectKey: key})
	wants(t, err, ledger.ErrNoIntent)
}
