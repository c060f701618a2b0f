package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// hostLeases is the host's own lease table, checked.
type hostLeases struct {
	table    fence.Table
	unleased string // which of these runs somebody holds
}

// hostColumn is a column of the host's table. Of a domain it is the type beneath.
type hostColumn struct {
	number         int16
	kind, category string
	enum           bool
}

// mapLeases checks the mapping against the table that is there and makes the ledger's leases those of the host.
func (l *Ledger) mapLeases(ctx context.Context, t fence.Table) error {
	if t.Schema == "" {
		t.Schema = l.schema
	}
	var columns map[string]hostColumn
	err := l.read(ctx, func(ctx context.Context, s *session) (err error) {
		columns, err = s.hostColumns(ctx, t)
		return err
	})
	if err != nil {
		return err
	}
	var faults []error
	for _, c := range t.Columns() {
		have, there := columns[c.Name]
		if !there {
			faults = append(faults, &fence.TableError{Field: c.Field, Reason: fmt.Sprintf("the table %s has no column %q; it has %s", t, c.Name, quoted(columns))})
		} else if reason := have.wrongFor(c.Field); reason != "" {
			faults = append(faults, &fence.TableError{Field: c.Field, Reason: fmt.Sprintf("the column %q of %s is %s; %s", c.Name, t, have.kind, reason)})
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	l.sql.lease, l.sql.verify = l.hostLeaseSQL(t, columns, " FOR SHARE"), l.hostLeaseSQL(t, columns, "")
	l.hosted = &hostLeases{table: t, unleased: fmt.Sprintf(`SELECT w.id FROM json_array_elements_text($1::text::json) AS w(id)
JOIN %s t ON t.%s = w.id%s WHERE %s AND t.%s > clock_timestamp() ORDER BY w.id LIMIT 1`, t.Relation(l.schema), fence.Quote(t.RunID), columns[t.RunID].cast(),
		held(t), fence.Quote(t.ExpiresAt))}
	return nil
}

// hostColumns reads what the catalogue says of the table: nothing of the table itself is read, and nothing depends on a search path.
func (s *session) hostColumns(ctx context.Context, t fence.Table) (map[string]hostColumn, error) {
	var id int64
	var kind string
	var reads, locks bool
	s.queue(`SELECT c.oid::bigint, c.relkind::text, has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT'),
has_any_column_privilege(c.oid, 'UPDATE') FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND c.relname = $2::text`, t.Schema, t.Name).QueryRow(func(r pgx.Row) error { return r.Scan(&id, &kind, &reads, &locks) })
	err := s.flush(ctx)
	fault := func(format string, args ...any) error {
		return &fence.TableError{Field: "name", Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, fault("there is no table %s", t.Relation(""))
	case err != nil:
		return nil, err
	case kind != "r" && kind != "p":
		return nil, fault("%s is no table: only a table's row can be locked while a claim commits", t.Relation(""))
	case !reads || !locks:
		return nil, fault("this user may not lock rows of %s; it needs SELECT, and UPDATE of one column at least", t.Relation(""))
	}
	columns := map[string]hostColumn{}
	unique := map[int16]bool{}
	s.queue(`SELECT a.attname::text, a.attnum, b.typname::text, b.typcategory::text, b.typtype = 'e' FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid JOIN pg_catalog.pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
WHERE a.attrelid = $1::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped`, id).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var name string
			var c hostColumn
			if err := rows.Scan(&name, &c.number, &c.kind, &c.category, &c.enum); err != nil {
				return err
			}
			columns[name] = c
		}
		return rows.Err()
	})
	s.queue(`SELECT indkey[0] FROM pg_catalog.pg_index WHERE indrelid = $1::bigint::oid AND indisunique AND indisvalid AND indnkeyatts = 1
AND indpred IS NULL AND indexprs IS NULL`, id).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var number int16
			if err := rows.Scan(&number); err != nil {
				return err
			}
			unique[number] = true
		}
		return rows.Err()
	})
	if err := s.flush(ctx); err != nil {
		return nil, err
	}
	if c, there := columns[t.RunID]; there && !unique[c.number] {
		return nil, &fence.TableError{Field: "run_id", Reason: fmt.Sprintf("the column %q of %s has no unique index of its own: one row for each run is locked while a claim commits", t.RunID, t)}
	}
	return columns, nil
}

// wrongFor says why the column cannot serve; empty if it can.
func (c hostColumn) wrongFor(field string) string {
	text := c.category == "S"
	switch field {
	case "run_id":
		if c.kind != "uuid" && c.kind != "text" && c.kind != "varchar" {
			return "a run's id is uuid, text or varchar"
		}
	case "owner":
		if c.kind != "uuid" && !text {
			return "an owner is text or uuid"
		}
	case "number":
		if c.kind != "int2" && c.kind != "int4" && c.kind != "int8" {
			return "a number is smallint, integer or bigint"
		}
	case "expires_at":
		if c.kind == "timestamp" {
			return "which moment that is depends on who reads it; use timestamptz"
		}
		if c.kind != "timestamptz" {
			return "an expiry is timestamptz"
		}
	case "status":
		if !c.enum && !text {
			return "a status is text or an enum"
		}
	}
	return ""
}

// cast makes a text one that the column is compared with by its index.
func (c hostColumn) cast() string {
	if c.kind == "uuid" {
		return "::uuid"
	}
	return ""
}

// held is the condition that somebody holds the lease, but for its expiry.
func held(t fence.Table) string {
	owner, number := "t."+fence.Quote(t.Owner), "t."+fence.Quote(t.Number)
	all := fmt.Sprintf("coalesce(%s::text, '') <> '' AND %s IS NOT NULL", owner, number)
	if t.Status == "" {
		return all
	}
	live := make([]string, len(t.Live))
	for n, v := range t.Live {
		live[n] = quoteText(v)
	}
	return fmt.Sprintf("%s AND coalesce(t.%s::text IN (%s), false)", all, fence.Quote(t.Status), strings.Join(live, ", "))
}

// quoteText writes a text that means the same whatever standard_conforming_strings is in a caller's transaction.
func quoteText(s string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
}

// hostLeaseSQL reads a lease as [leaseRow] has it, the clock after the lock was got. Expiries that no time can hold are cut.
func (l *Ledger) hostLeaseSQL(t fence.Table, columns map[string]hostColumn, lock string) string {
	return fmt.Sprintf(`WITH held AS MATERIALIZED (SELECT %s AS live, coalesce(t.%s::text, '') AS owner, coalesce(t.%s, 0)::bigint AS number,
t.%s AS expires FROM %s t WHERE t.%s = $1::text%s%s)
SELECT CASE WHEN live THEN 'leased' ELSE '' END, owner, number,
CASE WHEN expires IS NOT NULL THEN greatest(least(expires, '9999-12-31 00:00:00+00'::timestamptz), '0001-01-01 00:00:00+00'::timestamptz) END,
clock_timestamp(), (SELECT max(epoch) FROM %s) FROM held`, held(t), fence.Quote(t.Owner), fence.Quote(t.Number), fence.Quote(t.ExpiresAt), t.Relation(l.schema),
		fence.Quote(t.RunID), columns[t.RunID].cast(), lock, l.table("ledger_epochs"))
}

func quoted(columns map[string]hostColumn) string {
	var names []string
	for name := range columns {
		names = append(names, fmt.Sprintf("%q", name))
	}
	slices.Sort(names)
	if len(names) > maxNamed {
		names = append(names[:maxNamed], "…")
	}
	return strings.Join(names, ", ")
}

// verifyUnleased refuses runs that somebody holds in the host's table: a claim for them names the lease.
func (l *Ledger) verifyUnleased(ctx context.Context, e executor, prepared []ledger.Prepared) error {
	if l.hosted == nil {
		return nil // the trigger does, by agent_runs
	}
	var runs []string
	seen := map[string]bool{}
	for _, p := range prepared {
		if p.Lease == nil && !seen[p.RunID] {
			seen[p.RunID] = true
			runs = append(runs, p.RunID)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	leased := ""
	err := each(ctx, e, func(r rows) error { return r.Scan(&leased) }, l.hosted.unleased, jsonText(runs))
	if err == nil && leased != "" {
		err = &ledger.InvalidError{Field: "lease", Reason: fmt.Sprintf("the run %s is leased in %s; claim under its lease", leased, l.hosted.table)}
	}
	return err
}

// ownLeases refuses what only makes sense where runs are in agent_runs.
func (l *Ledger) ownLeases() error {
	if l.hosted != nil {
		return fmt.Errorf("%s: %w", l.hosted.table, fence.ErrHostLeases)
	}
	return nil
}
