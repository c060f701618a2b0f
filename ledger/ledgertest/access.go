package ledgertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/ledger"
)

func accessTopic() topic {
	return topic{"access and audit", []testCase{
		{name: "a token is kept by its digest, and found by it", run: tokenLife},
		{name: "a name is free again once its token is revoked", run: tokenNames},
		{name: "one of many at once gets a name", run: tokenRace},
		{name: "a token that cannot be right is refused, and its digest is not repeated", run: tokenInvalid},
		{name: "the audit trail is listed newest first, without gaps or repeats", run: auditPages},
		{name: "the audit trail takes hostile text", run: auditHostile},
		{name: "tokens and audit rows are never changed or deleted", run: accessKept},
	}}
}

func newAPIToken(change ...func(*ledger.APIToken)) ledger.APIToken {
	t := ledger.APIToken{
		ID: newRunID(), Name: "ci-" + uuid.NewString()[:13], Digest: canonical.SumBytes([]byte(uuid.NewString())).Hex(), Scopes: []string{"claim", "read"},
		CreatedBy: "ann",
	}
	for _, c := range change {
		c(&t)
	}
	return t
}

func tokenLife(f *fixture) {
	want := newAPIToken(func(t *ledger.APIToken) { t.ExpiresAt = f.now().Add(time.Hour).Truncate(time.Microsecond) })
	f.must(f.Ledger.PutAPIToken(f.ctx(), want))
	got, err := f.Ledger.APITokenByDigest(f.ctx(), want.Digest)
	f.must(err)
	if age := f.now().Sub(got.CreatedAt); age < 0 || age > time.Minute {
		f.t.Errorf("created %s ago on the database's clock", age)
	}
	if got.ID != want.ID || got.Name != want.Name || fmt.Sprint(got.Scopes) != "[claim read]" || got.CreatedBy != "ann" ||
		!got.ExpiresAt.Equal(want.ExpiresAt) || !got.RevokedAt.IsZero() || got.RevokedBy != "" {
		f.t.Errorf("stored %+v, found %+v", want, got)
	}
	_, err = f.Ledger.APITokenByDigest(f.ctx(), strings.Repeat("0", 64))
	f.wants(err, ledger.ErrNoAPIToken)
	_, err = f.Ledger.APITokenByDigest(f.ctx(), "no digest: \x00 ' OR 1=1")
	f.wants(err, ledger.ErrNoAPIToken)
	f.must(f.Ledger.PutAPIToken(f.ctx(), want)) // the answer to the first time may have been lost
	revoked, err := f.Ledger.RevokeAPIToken(f.ctx(), want.ID, "bob")
	f.must(err)
	if revoked.RevokedAt.IsZero() || revoked.RevokedBy != "bob" {
		f.t.Errorf("revoked as %+v", revoked)
	}
	again, err := f.Ledger.RevokeAPIToken(f.ctx(), want.ID, "carol")
	f.must(err)
	if !again.RevokedAt.Equal(revoked.RevokedAt) || again.RevokedBy != "bob" {
		f.t.Errorf("revoked twice: %+v, then %+v", revoked, again)
	}
	if got, err = f.Ledger.APITokenByDigest(f.ctx(), want.Digest); err != nil || got.RevokedAt.IsZero() {
		f.t.Errorf("a revoked token is found as %+v, %v", got, err)
	}
	_, err = f.Ledger.RevokeAPIToken(f.ctx(), newRunID(), "bob")
	f.wants(err, ledger.ErrNoAPIToken)
	_, err = f.Ledger.RevokeAPIToken(f.ctx(), "no uuid", "bob")
	f.wants(err, ledger.ErrNoAPIToken)
	_, err = f.Ledger.RevokeAPIToken(f.ctx(), want.ID, "")
	f.namesField(err, "by")
}

func tokenNames(f *fixture) {
	first := newAPIToken()
	f.must(f.Ledger.PutAPIToken(f.ctx(), first))
	second := newAPIToken(func(t *ledger.APIToken) { t.Name = first.Name })
	f.wants(f.Ledger.PutAPIToken(f.ctx(), second), ledger.ErrNameTaken)
	_, err := f.Ledger.RevokeAPIToken(f.ctx(), first.ID, "ann")
	f.must(err)
	f.must(f.Ledger.PutAPIToken(f.ctx(), second))
	all, err := f.Ledger.APITokens(f.ctx())
	f.must(err)
	var found []string
	for n, t := range all {
		if n > 0 && t.CreatedAt.Before(all[n-1].CreatedAt) {
			f.t.Errorf("%s is listed after a younger token", t.Name)
		}
		if t.Name == first.Name {
			found = append(found, t.ID)
		}
	}
	if fmt.Sprint(found) != fmt.Sprint([]string{first.ID, second.ID}) {
		f.t.Errorf("of the name are listed %v, want %s, then %s", found, first.ID, second.ID)
	}
	clash := newAPIToken(func(t *ledger.APIToken) { t.Digest = second.Digest })
	f.namesField(f.Ledger.PutAPIToken(f.ctx(), clash), "id")
	clash = newAPIToken(func(t *ledger.APIToken) { t.ID = second.ID })
	f.namesField(f.Ledger.PutAPIToken(f.ctx(), clash), "id")
}

func tokenRace(f *fixture) {
	name := newAPIToken().Name
	errs := make([]error, 4)
	var group sync.WaitGroup
	for n := range errs {
		group.Go(func() {
			errs[n] = f.Ledger.PutAPIToken(f.ctx(), newAPIToken(func(t *ledger.APIToken) { t.Name = name }))
		})
	}
	group.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		f.wants(err, ledger.ErrNameTaken)
	}
	if won != 1 {
		f.t.Errorf("%d of four got the name", won)
	}
}

func tokenInvalid(f *fixture) {
	const secret = "pawl_the_secret_itself"
	for field, change := range map[string]func(*ledger.APIToken){
		"id":         func(t *ledger.APIToken) { t.ID = "1" },
		"name":       func(t *ledger.APIToken) { t.Name = "two\nlines" },
		"digest":     func(t *ledger.APIToken) { t.Digest = secret },
		"scopes":     func(t *ledger.APIToken) { t.Scopes = nil },
		"created_by": func(t *ledger.APIToken) { t.CreatedBy = "" },
		"revoked_at": func(t *ledger.APIToken) { t.RevokedAt = f.now() },
	} {
		err := f.Ledger.PutAPIToken(f.ctx(), newAPIToken(change))
		f.namesField(err, field)
		if strings.Contains(err.Error(), secret) {
			f.t.Errorf("the error repeats what may be a secret: %v", err)
		}
	}
}

func auditPages(f *fixture) {
	const total = 7
	var want []string
	for n := range total {
		e := ledger.AuditEntry{
			Actor: "ann", TokenID: newRunID(), Action: "channel.pause", Subject: fmt.Sprintf("mail/%d", n),
			Detail: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), Result: ledger.AuditAsked,
		}
		f.must(f.Ledger.AppendAudit(f.ctx(), e))
		want = append([]string{e.Subject}, want...)
	}
	all, next, err := f.Ledger.Audit(f.ctx(), 0, "")
	f.must(err)
	if len(all) != total || next != "" {
		f.t.Fatalf("listed %d rows, cursor %q; want %d on one page", len(all), next, total)
	}
	for n, e := range all {
		if age := f.now().Sub(e.At); age < 0 || age > time.Minute || len(e.ID) != 36 || e.Actor != "ann" || len(e.TokenID) != 36 ||
			e.Action != "channel.pause" || e.Subject != want[n] || !sameJSON(e.Detail, fmt.Appendf(nil, `{"n":%d}`, total-1-n)) || e.Result != ledger.AuditAsked {
			f.t.Errorf("row %d is %+v", n, e)
		}
	}
	for _, limit := range []int{1, 2, total, 100} {
		var got []string
		for after, pages := ledger.Cursor(""), 0; ; pages++ {
			page, next, err := f.Ledger.Audit(f.ctx(), limit, after)
			f.must(err)
			if len(page) > limit || pages > total+1 {
				f.t.Fatalf("page %d of %d has %d rows", pages, limit, len(page))
			}
			for _, e := range page {
				got = append(got, e.Subject)
			}
			if pages == 0 && limit == 1 { // what comes meanwhile is on an earlier page
				f.must(f.Ledger.AppendAudit(f.ctx(), ledger.AuditEntry{Action: "late", Result: ledger.AuditDone}))
			}
			if after = next; next == "" {
				break
			}
		}
		if limit > 1 {
			if got[0] != "" {
				f.t.Errorf("pages of %d begin with %s, not with the newest row", limit, got[0])
			}
			got = got[1:]
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			f.t.Errorf("pages of %d list %v, want %v", limit, got, want)
		}
	}
	if _, _, err := f.Ledger.Audit(f.ctx(), 10, "no such cursor"); err == nil {
		f.t.Error("a cursor that nobody gave was taken")
	}
}

func auditHostile(f *fixture) {
	e := ledger.AuditEntry{
		ID: newRunID(), Actor: "a\x00\xffb", Action: "resolve", Subject: strings.Repeat("ä", 5000), Result: ledger.AuditRefused,
		Detail: json.RawMessage(`{"reason":"\u0000 \ud800 ' -- \\"}`), At: f.now().Add(time.Hour).Truncate(time.Microsecond),
	}
	f.must(f.Ledger.AppendAudit(f.ctx(), e))
	f.must(f.Ledger.AppendAudit(f.ctx(), e)) // the answer to the first time may have been lost
	all, _, err := f.Ledger.Audit(f.ctx(), 2, "")
	f.must(err)
	if got := all[0]; got.ID != e.ID || !got.At.Equal(e.At) || !strings.HasPrefix(got.Actor, "a") || len(got.Subject) > ledger.MaxReason+8 ||
		string(got.Detail) != string(e.Detail) || got.Result != ledger.AuditRefused || all[1].ID == e.ID {
		f.t.Errorf("kept %+v", all)
	}
	for field, bad := range map[string]ledger.AuditEntry{
		"action": {Result: ledger.AuditDone}, "result": {Action: "x", Result: "maybe"}, "detail": {Action: "x", Result: ledger.AuditDone, Detail: []byte("{")},
		"id": {ID: "1", Action: "x", Result: ledger.AuditDone},
	} {
		f.namesField(f.Ledger.AppendAudit(f.ctx(), bad), field)
	}
}

func accessKept(f *fixture) {
	t := newAPIToken()
	f.must(f.Ledger.PutAPIToken(f.ctx(), t))
	ended := newAPIToken()
	f.must(f.Ledger.PutAPIToken(f.ctx(), ended))
	_, err := f.Ledger.RevokeAPIToken(f.ctx(), ended.ID, "ann")
	f.must(err)
	f.must(f.Ledger.AppendAudit(f.ctx(), ledger.AuditEntry{Action: "x", Result: ledger.AuditDone}))
	statements := []string{
		"UPDATE audit_log SET result = 'asked'", "DELETE FROM audit_log", "DELETE FROM api_tokens",
		"UPDATE api_tokens SET digest = " + quote(strings.Repeat("0", 64)) + " WHERE id = " + quote(t.ID),
		"UPDATE api_tokens SET name = 'other' WHERE id = " + quote(t.ID), "UPDATE api_tokens SET expires_at = '2099-01-01T00:00:00.000000Z' WHERE id = " + quote(t.ID),
		"UPDATE api_tokens SET revoked_at = NULL, revoked_by = '' WHERE id = " + quote(ended.ID),
	}
	before := []string{""}
	if f.Dialect == Postgres {
		before = append(before, "SET LOCAL session_replication_role = replica")
		statements = append(statements, "TRUNCATE audit_log", "TRUNCATE api_tokens", "UPDATE api_tokens SET scopes = '{admin}' WHERE id = "+quote(t.ID))
	} else {
		statements = append(statements, "UPDATE api_tokens SET scopes = '[\"admin\"]' WHERE id = "+quote(t.ID),
			"REPLACE INTO audit_log SELECT id, at, 'mallory', token_id, action, subject, detail, result FROM audit_log",
			"REPLACE INTO api_tokens SELECT id, name, digest, '[\"admin\"]', created_at, created_by, expires_at, revoked_at, revoked_by FROM api_tokens")
	}
	for _, sql := range statements {
		for _, b := range before {
			if f.attempt(b, sql) == nil {
				f.t.Errorf("%s was allowed (%s)", sql, b)
			}
		}
	}
}
