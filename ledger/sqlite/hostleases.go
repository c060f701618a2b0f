package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// mainSchema is the ledger's own file, in SQLite's words.
const mainSchema = "main"

// hostLeases is the host's own lease table, checked.
type hostLeases struct {
	table fence.Table
	read  string // the row of a run
	live  string // JSON array of the statuses in which a lease can be held
}

// mapLeases checks the mapping against the table that is there and makes the ledger's leases those of the host.
func (l *Ledger) mapLeases(ctx context.Context, t fence.Table) error {
	if t.Schema != "" && t.Schema != mainSchema {
		return &fence.TableError{Field: "schema", Reason: fmt.Sprintf("is %q; the table must be in the ledger's own file: leave the schema out", t.Schema)}
	}
	err := l.writer.do(ctx, func(ctx context.Context, s *session) error { return s.checkHostTable(ctx, t) })
	if err != nil {
		return err
	}
	live, err := json.Marshal(t.Live)
	if err != nil {
		return fmt.Errorf("write statuses as JSON: %w", err)
	}
	// Qualified names: one that is not a column any more would be read as a text. The plus keeps the driver from reading texts as times.
	column := func(name string) string { return "t." + fence.Quote(name) }
	status := "1"
	if t.Status != "" {
		status = "coalesce(CAST(" + column(t.Status) + " AS TEXT) IN (SELECT value FROM json_each(?2)), 0)"
	}
	l.hosted = &hostLeases{table: t, live: string(live), read: fmt.Sprintf(`SELECT coalesce(CAST(%s AS TEXT), ''), %s, +%s, %s FROM %s AS t WHERE %s = ?1`,
		column(t.Owner), column(t.Number), column(t.ExpiresAt), status, t.Relation(mainSchema), column(t.RunID))}
	return nil
}

// hostColumn is a column of the host's table. SQLite takes its name in upper and lower case.
type hostColumn struct{ name, kind string }

func (s *session) checkHostTable(ctx context.Context, t fence.Table) error {
	var kind string
	found, err := s.find(ctx, "SELECT type FROM pragma_table_list WHERE schema = 'main' AND lower(name) = lower(?)", []any{t.Name}, &kind)
	if err != nil {
		return fmt.Errorf("look for table %s: %w", t, err)
	}
	if !found || kind != "table" {
		return &fence.TableError{Field: "name", Reason: fmt.Sprintf("there is no table %s in the ledger's file", fence.Quote(t.Name))}
	}
	var columns []hostColumn
	err = s.each(ctx, "SELECT name, type FROM pragma_table_xinfo(?, 'main')", []any{t.Name}, func(scan func(...any) error) error {
		var c hostColumn
		err := scan(&c.name, &c.kind)
		columns = append(columns, c)
		return err
	})
	if err != nil {
		return fmt.Errorf("read columns of table %s: %w", t, err)
	}
	var faults []error
	for _, c := range t.Columns() {
		at := slices.IndexFunc(columns, func(have hostColumn) bool { return strings.EqualFold(have.name, c.Name) })
		if at < 0 {
			var names []string
			for _, have := range columns {
				names = append(names, fmt.Sprintf("%q", have.name))
			}
			faults = append(faults, &fence.TableError{Field: c.Field, Reason: fmt.Sprintf("the table %s has no column %q; it has %s", t, c.Name, strings.Join(names, ", "))})
		} else if reason := columns[at].wrongFor(c.Field); reason != "" {
			faults = append(faults, &fence.TableError{Field: c.Field, Reason: fmt.Sprintf("the column %q of %s is %s; %s", c.Name, t, columns[at].kind, reason)})
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	var unique bool
	err = s.row(ctx, `SELECT EXISTS (SELECT 1 FROM pragma_index_list(?1, 'main') l WHERE l."unique" = 1 AND l.partial = 0
		AND (SELECT count(*) FROM pragma_index_info(l.name, 'main')) = 1
		AND EXISTS (SELECT 1 FROM pragma_index_info(l.name, 'main') c WHERE lower(c.name) = lower(?2)))`, []any{t.Name, t.RunID}, &unique)
	if err != nil {
		return fmt.Errorf("read indexes of table %s: %w", t, err)
	}
	if !unique {
		return &fence.TableError{Field: "run_id", Reason: fmt.Sprintf("the column %q of %s has no unique index of its own: a run has one row", t.RunID, t)}
	}
	return nil
}

// wrongFor says why the column cannot serve; empty if it can. What a column is declared as decides how SQLite keeps what is put in.
func (c hostColumn) wrongFor(field string) string {
	kind := strings.ToUpper(c.kind)
	whole := strings.Contains(kind, "INT")
	text := !whole && (strings.Contains(kind, "CHAR") || strings.Contains(kind, "CLOB") || strings.Contains(kind, "TEXT"))
	real := !whole && !text && (strings.Contains(kind, "REAL") || strings.Contains(kind, "FLOA") || strings.Contains(kind, "DOUB"))
	switch {
	case field == "number" && (text || real || kind == "BLOB"):
		return "a number is INTEGER"
	case field == "run_id" && (whole || real || kind == "BLOB"):
		return "a run's id is TEXT, a UUID in lower case"
	case field == "expires_at" && kind == "BLOB":
		return "an expiry is TEXT (RFC 3339) or a number (seconds since 1970)"
	}
	return ""
}

// hostLease is a run's row in the host's table.
type hostLease struct {
	owner   string
	number  *int64
	expires time.Time
	live    bool
}

// hostLease reads the run's row; none: nobody holds it.
func (s *session) hostLease(ctx context.Context, runID string) (h hostLease, err error) {
	var expires any
	args := []any{runID}
	if s.l.hosted.table.Status != "" {
		args = append(args, s.l.hosted.live)
	}
	found, err := s.find(ctx, s.l.hosted.read, args, &h.owner, &h.number, &expires, &h.live)
	if err == nil && found {
		h.expires, err = hostTime(expires)
	}
	if err != nil {
		return h, fmt.Errorf("read lease of run %s in %s: %w", runID, s.l.hosted.table, err)
	}
	h.live = h.live && found && h.owner != "" && h.number != nil
	return h, nil
}

// verifyHostLease is verifyLease on the host's table.
func (s *session) verifyHostLease(ctx context.Context, l fence.Lease, now time.Time) error {
	h, err := s.hostLease(ctx, l.RunID)
	if err != nil {
		return err
	}
	epoch, err := s.currentEpoch(ctx)
	if err != nil {
		return err
	}
	switch {
	case !h.live || h.owner != l.Fence.Owner || *h.number != l.Fence.Number || l.Fence.Epoch != 0 && l.Fence.Epoch != epoch:
		return fmt.Errorf("run %s, lease %s: %w", l.RunID, l.Fence, fence.ErrLost)
	case !now.Before(h.expires):
		return fmt.Errorf("run %s, lease %s: it has expired: %w", l.RunID, l.Fence, fence.ErrLost)
	}
	return nil
}

// unleased refuses claims without a lease for runs that somebody holds in the host's table.
func (s *session) unleased(ctx context.Context, claims []ledger.Prepared, now time.Time) error {
	if s.l.hosted == nil {
		return nil // insertIntent looks into agent_runs
	}
	looked := map[string]bool{}
	for _, p := range claims {
		if p.Lease != nil || looked[p.RunID] {
			continue
		}
		looked[p.RunID] = true
		h, err := s.hostLease(ctx, p.RunID)
		if err != nil {
			return err
		}
		if h.live && now.Before(h.expires) {
			return &ledger.InvalidError{Field: "lease", Reason: fmt.Sprintf("the run %s is leased in %s; claim under its lease", p.RunID, s.l.hosted.table)}
		}
	}
	return nil
}

// latestSeconds is the end of the year 9999: a greater number counts something smaller than seconds.
const latestSeconds = 253402300799

// hostTime reads an expiry: text of RFC 3339, or as datetime() writes it, which is UTC; or seconds since 1970. NULL is no time.
func hostTime(v any) (time.Time, error) {
	switch v := v.(type) {
	case nil:
		return time.Time{}, nil
	case int64:
		if v >= 0 && v <= latestSeconds {
			return time.Unix(v, 0).UTC(), nil
		}
	case float64:
		if v >= 0 && v <= latestSeconds {
			return time.UnixMicro(int64(v * 1e6)).UTC(), nil
		}
	case []byte:
		return hostTime(string(v))
	case string:
		for _, layout := range []string{time.RFC3339Nano, time.DateTime} {
			if t, err := time.Parse(layout, v); err == nil {
				return t.UTC(), nil
			}
		}
	case time.Time:
		return v.UTC(), nil
	}
	return time.Time{}, fmt.Errorf("expires_at is %.64q; write it as RFC 3339 or as seconds since 1970", fmt.Sprint(v))
}

// ownLeases refuses what only makes sense where runs are in agent_runs.
func (l *Ledger) ownLeases() error {
	if l.hosted != nil {
		return fmt.Errorf("%s: %w", l.hosted.table, fence.ErrHostLeases)
	}
	return nil
}
