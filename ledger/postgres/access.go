package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/ledger"
)

const tokenColumns = `id::text, name, digest, to_json(scopes)::text, created_at, created_by, expires_at, revoked_at, revoked_by`

func scanAPIToken(row pgx.Row) (ledger.APIToken, error) {
	var t ledger.APIToken
	var scopes string
	var expires, revoked *time.Time
	if err := row.Scan(&t.ID, &t.Name, &t.Digest, &scopes, &t.CreatedAt, &t.CreatedBy, &expires, &revoked, &t.RevokedBy); err != nil {
		return t, err
	}
	t.CreatedAt, t.ExpiresAt, t.RevokedAt = t.CreatedAt.UTC(), utc(expires), utc(revoked)
	if err := json.Unmarshal([]byte(scopes), &t.Scopes); err != nil {
		return t, fmt.Errorf("read scopes of token %s: %w", t.ID, err)
	}
	return t, nil
}

// PutAPIToken stores a new token. [ledger.Access].
func (l *Ledger) PutAPIToken(ctx context.Context, t ledger.APIToken) error {
	if err := t.Check(); err != nil {
		return fmt.Errorf("store API token: %w", err)
	}
	sql := fmt.Sprintf(`INSERT INTO %s (id, name, digest, scopes, created_at, created_by, expires_at)
VALUES ($1::uuid, $2, $3, $4::text[], coalesce($5, clock_timestamp()), $6, $7) ON CONFLICT DO NOTHING RETURNING true`, l.table("api_tokens"))
	// By a statement of its own: the insert may have waited for somebody who stores one of the same name.
	there := fmt.Sprintf(`SELECT count(*) FILTER (WHERE id = $1::uuid AND name = $2 AND digest = $3), count(*) FILTER (WHERE name = $2 AND revoked_at IS NULL)
FROM %s WHERE id = $1::uuid OR name = $2 OR digest = $3`, l.table("api_tokens"))
	return l.transact(ctx, func(ctx context.Context, s *session) error {
		stored := false
		var same, named int
		s.queue(sql, t.ID, t.Name, t.Digest, t.Scopes, timeOrNull(t.CreatedAt), t.CreatedBy, timeOrNull(t.ExpiresAt)).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				stored = true
			}
			return rows.Err()
		})
		s.queue(there, t.ID, t.Name, t.Digest).QueryRow(func(r pgx.Row) error { return r.Scan(&same, &named) })
		if err := s.flush(ctx); err != nil {
			return err
		}
		switch {
		case stored || same == 1: // there already: the answer to an earlier time was lost, so make sure that it is durable
			s.queue(syncCommit)
			return s.commit(ctx)
		case named > 0:
			return fmt.Errorf("store API token %s: %w", t.Name, ledger.ErrNameTaken)
		}
		return &ledger.InvalidError{Field: "id", Reason: "another token has this id, or this digest; make a new one"}
	})
}

// APITokens returns all tokens, oldest first. [ledger.Access].
func (l *Ledger) APITokens(ctx context.Context) ([]ledger.APIToken, error) {
	var all []ledger.APIToken
	err := l.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		s.queue(fmt.Sprintf(`SELECT %s FROM %s ORDER BY created_at, id`, tokenColumns, l.table("api_tokens"))).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				t, err := scanAPIToken(rows)
				if err != nil {
					return err
				}
				all = append(all, t)
			}
			return rows.Err()
		})
		return s.flush(ctx)
	})
	return all, err
}

// APITokenByDigest returns the token with this digest. [ledger.Access].
func (l *Ledger) APITokenByDigest(ctx context.Context, digest string) (t ledger.APIToken, err error) {
	err = l.read(ctx, func(ctx context.Context, s *session) error {
		s.queue(fmt.Sprintf(`SELECT %s FROM %s WHERE digest = $1`, tokenColumns, l.table("api_tokens")), bounded(digest)).QueryRow(func(r pgx.Row) error {
			t, err = scanAPIToken(r)
			return err
		})
		return s.flush(ctx)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = ledger.ErrNoAPIToken
	}
	return t, err
}

// RevokeAPIToken ends a token. [ledger.Access].
func (l *Ledger) RevokeAPIToken(ctx context.Context, id, by string) (t ledger.APIToken, err error) {
	if by == "" {
		return t, &ledger.InvalidError{Field: "by", Reason: "say who revokes"}
	}
	if !isUUID(id) {
		return t, ledger.ErrNoAPIToken
	}
	err = l.transact(ctx, func(ctx context.Context, s *session) error {
		s.queue(fmt.Sprintf(`UPDATE %s SET revoked_at = clock_timestamp(), revoked_by = $2 WHERE id = $1::uuid AND revoked_at IS NULL`,
			l.table("api_tokens")), id, bounded(by))
		s.queue(fmt.Sprintf(`SELECT %s FROM %s WHERE id = $1::uuid`, tokenColumns, l.table("api_tokens")), id).QueryRow(func(r pgx.Row) error {
			t, err = scanAPIToken(r)
			return err
		})
		s.queue(syncCommit) // one that is revoked already may have been by a COMMIT whose answer is lost
		return s.commit(ctx)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = ledger.ErrNoAPIToken
	}
	return t, err
}
