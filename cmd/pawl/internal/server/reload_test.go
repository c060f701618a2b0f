package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/ledger"
)

// reloadable runs a configuration of a file that can be written anew.
func reloadable(t *testing.T, text string) (r *running, rewrite func(text, logged string)) {
	t.Helper()
	c := configured(t, text)
	path := filepath.Join(filepath.Dir(c.Data), "pawl.yaml")
	r = start(t, Options{Config: c, Load: func() (config.Config, error) { return config.LoadWith(path, nil) }})
	r.committed("file/audit", "it runs")
	var times atomic.Int64
	return r, func(text, logged string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "$DIR", filepath.Dir(path))), 0o600); err != nil {
			t.Fatal(err)
		}
		n := int(times.Add(1))
		r.signals <- syscall.SIGHUP
		r.await("the reload is logged", func() bool {
			return strings.Count(r.log.String(), "msg="+EventReloaded)+strings.Count(r.log.String(), "msg="+EventReloadFailed) == n
		})
		if !r.logged(logged) {
			t.Fatalf("the log lacks %q:\n%s", logged, r.log)
		}
	}
}

func (r *running) row(channel string) string {
	r.t.Helper()
	row, err := r.Ledger.ChannelRow(r.t.Context(), channel)
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprintf("%s %d %v", row.Flag, row.RatePerMinute, row.ApprovalRequired)
}

func TestAReloadAppliesOnlyWhatChangedInTheFile(t *testing.T) {
	r, rewrite := reloadable(t, oneChannel)
	with := func(keys string) string {
		return strings.Replace(oneChannel, "    policy:", "    "+strings.ReplaceAll(keys, "; ", "\n    ")+"\n    policy:", 1)
	}
	rewrite(with("rate_per_minute: 600"), `msg=config.changed key=channels.file/audit.rate_per_minute from=0 to=600`)
	if got := r.row("file/audit"); got != "on 600 false" {
		t.Errorf("the channel is %s", got)
	}
	if err := r.Ledger.SetFlag(t.Context(), "file/audit", ledger.FlagPaused); err != nil { // a person
		t.Fatal(err)
	}
	rewrite(with("rate_per_minute: 600; approval_required: true"), `msg=config.reloaded changed=1 need_restart=0`)
	if got := r.row("file/audit"); got != "paused 600 true" {
		t.Errorf("a person's flag was undone, or more: %s", got)
	}
	rewrite(with("rate_per_minute: 600; approval_required: true; flag: on"), `key=channels.file/audit.flag from="" to=on`)
	if got := r.row("file/audit"); got != "on 600 true" {
		t.Errorf("the flag that the file states now is not set: %s", got)
	}
	rewrite(strings.Replace(oneChannel, "{unknown: hold}", "{unknown: hold, concurrency: 3}", 1), `key=channels.file/audit.policy.concurrency from=0 to=3`)
	if got := r.row("file/audit"); got != "on 0 false" {
		t.Errorf("what the file states no more is %s", got)
	}
	r.committed("file/audit", "it still runs")
}

func TestWhatNeedsARestartIsNamedUntilThen(t *testing.T) {
	_, rewrite := reloadable(t, oneChannel)
	changed := strings.Replace(oneChannel, "effects.jsonl", "others.jsonl", 1) + `
  file/new:
    adapter: file
    config: {path: $DIR/new.jsonl}
    policy: {unknown: hold}
`
	rewrite(changed, `msg=config.needs_restart key=channels.file/audit.config`)
	rewrite(changed, `msg=config.needs_restart key=channels.file/new`)
	rewrite(changed, `msg=config.reloaded changed=0 need_restart=2`)
	rewrite(oneChannel, `msg=config.reloaded changed=0 need_restart=0`)
}

func TestAFaultyConfigurationChangesNothing(t *testing.T) {
	r, rewrite := reloadable(t, oneChannel)
	rewrite(strings.Replace(oneChannel, "    policy:", "    rate_per_minute: 60\n    flga: off\n    policy:", 1), `did you mean \"flag\"?`)
	rewrite(strings.Replace(oneChannel, "{unknown: hold}", "{unknown: hold, concurrency: 9999}", 1), `must be between 1 and 4096`)
	if got := r.row("file/audit"); got != "on 0 false" {
		t.Errorf("the channel is %s", got)
	}
	rewrite(strings.Replace(oneChannel, "    policy:", "    rate_per_minute: 60\n    policy:", 1), `changed=1 need_restart=0`)
	if got := r.row("file/audit"); got != "on 60 false" {
		t.Errorf("after it was mended the channel is %s", got)
	}
}

func TestAReloadCountsForAChannelThatHasNotStartedYet(t *testing.T) {
	text := oneChannel + `
  mail/shop:
    adapter: smtp
    config: {host: h, from: not an address}
    policy: {unknown: hold}
`
	r, rewrite := reloadable(t, text)
	rewrite(strings.Replace(text, "    policy: {unknown: hold}\n", "    policy: {unknown: hold}\n    rate_per_minute: 7\n    flag: paused\n", 2), `changed=4 need_restart=0`)
	if got := r.configuration().Channels["mail/shop"]; got.RatePerMinute != 7 || got.Flag != "paused" {
		t.Errorf("it would join with %+v", got)
	}
}

func TestWithoutAWayToReloadSIGHUPStops(t *testing.T) {
	r := start(t, Options{Config: configured(t, oneChannel)})
	r.signals <- syscall.SIGHUP
	r.end()
	if !r.logged("signal=hangup") {
		t.Errorf("the log:\n%s", r.log)
	}
}
