package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawlworks/pawl/ledger"
)

const selectToken = `SELECT id, name, digest, scopes, created_at, created_by, expires_at, revoked_at, revoked_by FROM api_tokens`

// tokenRow is a row as it is scanned.
type tokenRow struct {
	token  ledger.APIToken
	scopes string
}

func (r *tokenRow) into() []any {
	t := &r.token
	return []any{&t.ID, &t.Name, &t.Digest, &r.scopes, scanTime{&t.CreatedAt}, &t.CreatedBy, scanTime{&t.ExpiresAt}, scanTime{&t.RevokedAt}, &t.RevokedBy}
}

func (r *tokenRow) read() (ledger.APIToken, error) {
	if err := json.Unmarshal([]byte(r.scopes), &r.token.Scopes); err != nil {
		return r.token, fmt.Errorf("read scopes of token %s: %w", r.token.ID, err)
	}
	return r.token, nil
}

// apiToken reads one token. [ledger.ErrNoAPIToken].
func (s *session) apiToken(ctx context.Context, where string, value string) (ledger.APIToken, error) {
	var row tokenRow
	found, err := s.find(ctx, selectToken+where, []any{value}, row.into()...)
	if err != nil {
		return ledger.APIToken{}, err
	}
	if !found {
		return ledger.APIToken{}, ledger.ErrNoAPIToken
	}
	return row.read()
}

// PutAPIToken implements [ledger.Access].
func (l *Ledger) PutAPIToken(ctx context.Context, t ledger.APIToken) error {
	err := t.Check()
	if err == nil {
		err = l.writer.do(ctx, func(ctx context.Context, s *session) error { return s.putToken(ctx, t) })
	}
	if err != nil {
		return fmt.Errorf("store API token: %w", err)
	}
	return nil
}

func (s *session) putToken(ctx context.Context, t ledger.APIToken) error {
	var same, named, clashing int
	err := s.row(ctx, `SELECT count(*) FILTER (WHERE id = ?1 AND name = ?2 AND digest = ?3), count(*) FILTER (WHERE name = ?2 AND revoked_at IS NULL),
		count(*) FILTER (WHERE id = ?1 OR digest = ?3) FROM api_tokens WHERE id = ?1 OR name = ?2 OR digest = ?3`,
		[]any{t.ID, t.Name, t.Digest}, &same, &named, &clashing)
	switch {
	case err != nil:
		return err
	case same == 1:
		return nil // the answer to an earlier time was lost
	case named > 0:
		return fmt.Errorf("%s: %w", t.Name, ledger.ErrNameTaken)
	case clashing > 0:
		return &ledger.InvalidError{Field: "id", Reason: "another token has this id, or this digest; make a new one"}
	}
	if t.CreatedAt.IsZero() {
		if t.CreatedAt, err = s.now(ctx); err != nil {
			return err
		}
	}
	scopes, err := jsonText(t.Scopes, false)
	if err != nil {
		return err
	}
	_, err = s.exec(ctx, `INSERT INTO api_tokens (id, name, digest, scopes, created_at, created_by, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		t.ID, t.Name, t.Digest, scopes, timeText(t.CreatedAt), t.CreatedBy, timeText(t.ExpiresAt))
	return err
}

// APITokens implements [ledger.Access].
func (l *Ledger) APITokens(ctx context.Context) (all []ledger.APIToken, err error) {
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		return s.each(ctx, selectToken+" ORDER BY created_at, id", nil, func(scan func(...any) error) error {
			var row tokenRow
			if err := scan(row.into()...); err != nil {
				return err
			}
			t, err := row.read()
			all = append(all, t)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list API tokens: %w", err)
	}
	return all, nil
}

// APITokenByDigest implements [ledger.Access].
func (l *Ledger) APITokenByDigest(ctx context.Context, digest string) (t ledger.APIToken, err error) {
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		t, err = s.apiToken(ctx, " WHERE digest = ?", digest)
		return err
	})
	if err != nil {
		return ledger.APIToken{}, fmt.Errorf("look for API token: %w", err)
	}
	return t, nil
}

// RevokeAPIToken implements [ledger.Access].
func (l *Ledger) RevokeAPIToken(ctx context.Context, id, by string) (t ledger.APIToken, err error) {
	if by == "" {
		return t, &ledger.InvalidError{Field: "by", Reason: "is empty; say who revokes"}
	}
	err = l.writer.do(ctx, func(ctx context.Context, s *session) error {
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		if _, err := s.exec(ctx, "UPDATE api_tokens SET revoked_at = ?, revoked_by = ? WHERE id = ? AND revoked_at IS NULL",
			timeText(now), bounded(by), id); err != nil {
			return err
		}
		t, err = s.apiToken(ctx, " WHERE id = ?", id)
		return err
	})
	if err != nil {
		return ledger.APIToken{}, fmt.Errorf("revoke API token: %w", err)
	}
	return t, nil
}
