package config

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

var (
	channelName = regexp.MustCompile(`^[a-z][a-z0-9]*(/[A-Za-z0-9._-]+)?$`)
	uuidForm    = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

// check finds what the types alone cannot. What depends on an adapter's sheet is checked by the engine.
func (d *decoder) check(c Config) {
	if c.Ledger.URL != "" {
		if problem := c.Ledger.URL.Fault(); problem != "" {
			d.fault([]string{"ledger", "url"}, "%s", problem)
		}
	}
	if c.Ledger.ID != "" && !uuidForm.MatchString(c.Ledger.ID) {
		d.fault([]string{"ledger", "id"}, "is not a UUID; copy it from: pawl migrate status")
	}
	if c.Ledger.Schema != "" && !c.Ledger.URL.Postgres() {
		d.fault([]string{"ledger", "schema"}, "is for postgres:// ledgers only; remove it")
	}
	d.oneOf([]string{"log", "level"}, c.Log.Level, "", "debug", "info", "warn", "error")
	d.oneOf([]string{"log", "format"}, c.Log.Format, "", "text", "json")
	d.checkService(c)
	for _, name := range c.Names() {
		d.checkChannel([]string{"channels", name}, name, c.Channels[name])
	}
}

func (d *decoder) checkChannel(path []string, name string, c Channel) {
	at := func(keys ...string) []string { return append(path[:len(path):len(path)], keys...) }
	if !channelName.MatchString(name) {
		d.fault(path, "is no channel name; use kind or kind/name, such as mail/marketing")
	}
	d.checkAdapter(at("adapter"), c.Adapter)
	d.oneOf(at("flag"), c.Flag, "", "on", "off", "paused", "shadow")
	switch c.Policy.Unknown {
	case "":
		d.fault(at("policy", "unknown"), "must be stated: hold (a person decides), abandon (at most once) or resend (at least once)")
	default:
		d.oneOf(at("policy", "unknown"), c.Policy.Unknown, "hold", "abandon", "resend")
	}
	d.oneOf(at("policy", "lane"), c.Policy.Lane, "", "block", "skip")
}

func (d *decoder) checkAdapter(path []string, a Adapter) {
	at := func(key string) []string { return append(path[:len(path):len(path)], key) }
	switch {
	case a.Name == "" && a.Path == "":
		d.fault(path, "is missing: name a bundled adapter, or a program by path and sha256")
	case a.Name != "" && a.Path != "":
		d.fault(path, "has both name and path; keep one")
	case a.Name != "" && (a.SHA256 != "" || len(a.Args) > 0 || a.BeginProven):
		d.fault(path, "sha256, args and begin_proven are for an adapter with a path; a bundled one needs none")
	}
	if digest, err := hex.DecodeString(a.SHA256); err != nil || len(digest) != 0 && len(digest) != 32 {
		d.fault(at("sha256"), "is not the hex form of a SHA-256 digest (64 characters); make it with sha256sum")
	}
	if a.Path != "" && a.SHA256 == "" {
		d.fault(at("sha256"), "is missing: pin the program with the output of sha256sum")
	}
	if a.QuarantineTime < 0 {
		d.fault(at("quarantine_time"), "must not be negative, is %s", a.QuarantineTime)
	}
	for _, name := range a.Env {
		if name == "" || strings.ContainsAny(name, "=\x00 ") {
			d.fault(at("env"), "lists names of variables, without values")
		}
	}
}

func (d *decoder) oneOf(path []string, value string, allowed ...string) {
	if slices.Contains(allowed, value) {
		return
	}
	named := slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" })
	d.fault(path, "is none of %s", strings.Join(named, ", "))
}
