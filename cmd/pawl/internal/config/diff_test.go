package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestEveryChangedKeyIsNamedAndNoValue(t *testing.T) {
	before := load(t, valid)
	changed := strings.NewReplacer("hunter2", "hunter3", "fence_ttl: 90s", "fence_ttl: 95s", "flag: shadow", "flag: on", "args: [serve, --fast]", "args: [serve]",
		"log: {level: debug", "log: {level: info", "    rate_per_minute: 60\n", "").Replace(valid)
	after := load(t, changed+"  file/new:\n    adapter: file\n    policy: {unknown: hold}\n")
	after.Data, after.Ledger.URL = before.Data, before.Ledger.URL // each file is in a directory of its own
	chain := after.Channels["onchain/base"]
	chain.Adapter.Path = before.Channels["onchain/base"].Adapter.Path
	after.Channels["onchain/base"] = chain
	var keys []string
	for _, c := range Diff(before, after) {
		keys = append(keys, c.Key())
	}
	want := "log.level channels.file/new channels.mail/marketing.eu.config channels.mail/marketing.eu.rate_per_minute " +
		"channels.mail/marketing.eu.policy.fence_ttl channels.onchain/base.adapter.args channels.onchain/base.flag"
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if text := fmt.Sprint(Diff(before, after)); strings.Contains(text, "hunter") {
		t.Errorf("a value is printed: %s", text)
	}
	if same := Diff(before, load(t, valid)); len(same) != 3 { // data, the ledger's path, the adapter's path
		t.Errorf("the same text in another directory differs in %v", same)
	}
	name, key, ok := Change{[]string{"channels", "a/b.c", "policy", "concurrency"}}.Channel()
	if name != "a/b.c" || key != "policy.concurrency" || !ok {
		t.Errorf("got %s, %s, %v", name, key, ok)
	}
}
