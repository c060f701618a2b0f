package postgres

import "fmt"

// statements holds the ledger's SQL with its schema filled in: nothing depends on a search path.
type statements struct {
	lock, lockFree, lockGroup, pick, pickLanes, resolve, nextDue, around, aroundOne string
	token, deadTokens, late, usedLate, evidenceID, evidenceOwner                    string
	raiseLane, advance, enqueue, dequeue, wait, want, log, receipt, count           string
	claim, existing, useApproval, channelsOf, dedupe, lease, verify, channel        string
}

func (l *Ledger) table(name string) string { return quoteName(l.schema) + "." + quoteName(name) }

func (l *Ledger) statements() statements {
	t := l.table
	one := fmt.Sprintf(`SELECT %s FROM %s i WHERE i.run_id = $1::uuid AND i.effect_key = $2 FOR UPDATE`, intentColumns, t("effect_intents"))
	return statements{
		lock:     one,
		lockFree: one + ` SKIP LOCKED`,
		lockGroup: fmt.Sprintf(`SELECT %s FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS u(run, key, n)
JOIN %s i ON i.run_id = u.run AND i.effect_key = u.key ORDER BY u.n FOR UPDATE OF i SKIP LOCKED`, intentColumns, t("effect_intents")),
		// The clock is read in a subquery, once: a clock that ticks within a scan cannot use the index.
		pick: fmt.Sprintf(`WITH due AS MATERIALIZED (
SELECT q.seq, q.run_id, q.effect_key, q.due_at FROM %s q
WHERE q.channel = $1 AND q.phase = 'send' AND NOT q.turn_waiting AND q.due_at <= (SELECT clock_timestamp())
ORDER BY q.due_at, q.seq LIMIT $2 FOR UPDATE SKIP LOCKED)
SELECT %s, due.seq FROM due JOIN %s i ON i.run_id = due.run_id AND i.effect_key = due.effect_key
ORDER BY due.due_at, due.seq FOR UPDATE OF i SKIP LOCKED`, t("dispatch_queue"), intentColumns, t("effect_intents")),
		pickLanes: fmt.Sprintf(`SELECT lane, turn, number FROM %s WHERE lane = ANY($1::text[]) ORDER BY lane FOR UPDATE SKIP LOCKED`, t("lanes")),
		resolve: fmt.Sprintf(`SELECT count(%s(w.lane)) FROM (SELECT lane FROM %s WHERE wanted ORDER BY lane LIMIT 64 FOR UPDATE SKIP LOCKED) w`,
			t("lane_resolve"), t("lanes")),
		nextDue: fmt.Sprintf(`SELECT clock_timestamp(), (SELECT q.due_at FROM %s q WHERE q.channel = $1 AND q.phase = 'send' AND NOT q.turn_waiting
AND q.due_at > (SELECT clock_timestamp()) ORDER BY q.due_at LIMIT 1)`, t("dispatch_queue")),
		around:    l.aroundSQL(false),
		aroundOne: l.aroundSQL(true),

		token: fmt.Sprintf(`INSERT INTO %s (run_id, effect_key, version, channel, digest, token, hint, life, excludes_earlier, lane_number, made_at)
VALUES ($1::uuid, $2, $3, $4, $5, $6, $7, $8::bigint * interval '1 microsecond', $9, $10, $11)`, t("effect_tokens")),
		deadTokens: fmt.Sprintf(`UPDATE %s SET dead_at = $3 WHERE run_id = $1::uuid AND effect_key = $2 AND dead_at IS NULL`, t("effect_tokens")),
		late: fmt.Sprintf(`INSERT INTO %s (id, run_id, effect_key, ledger_epoch, fence_epoch, fence_owner, attempt, outcome, evidence, reason, at)
VALUES ($1::uuid, $2::uuid, $3, $4, $5, $6, $7, $8, $9::text::jsonb, $10, $11)`, t("late_evidence")),
		usedLate:      fmt.Sprintf(`UPDATE %s SET used_at = $2 WHERE id = ANY($1::uuid[]) AND used_at IS NULL`, t("late_evidence")),
		evidenceID:    fmt.Sprintf(`INSERT INTO %s (channel, evidence_id, run_id, effect_key) VALUES ($1, $2, $3::uuid, $4)`, t("evidence_ids")),
		evidenceOwner: fmt.Sprintf(`SELECT EXISTS (SELECT FROM %s WHERE channel = $1 AND evidence_id = $2)`, t("evidence_ids")),
		raiseLane:     fmt.Sprintf(`UPDATE %s SET number = greatest(number, $2::bigint) WHERE lane = $1`, t("lanes")),
		advance:       fmt.Sprintf(`SELECT %s($1, $2)`, t("lane_advance")),
		enqueue: fmt.Sprintf(`INSERT INTO %s AS q (seq, run_id, effect_key, channel, phase, due_at)
SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
ON CONFLICT (seq) DO UPDATE SET run_id = excluded.run_id, effect_key = excluded.effect_key, channel = excluded.channel,
phase = excluded.phase, due_at = excluded.due_at`, t("dispatch_queue")),
		dequeue: fmt.Sprintf(`DELETE FROM %s WHERE seq = ANY($1::bigint[])`, t("dispatch_queue")),
		wait:    fmt.Sprintf(`UPDATE %s SET turn_waiting = true WHERE seq = ANY($1::bigint[])`, t("dispatch_queue")),
		want:    fmt.Sprintf(`UPDATE %s SET wanted = true WHERE lane = ANY($1::text[]) AND NOT wanted`, t("lanes")),
		log: fmt.Sprintf(`INSERT INTO %s (id, run_id, effect_key, attempt, outcome, at, detail)
SELECT u1, u2, u3, u4, u5, u6, u7::jsonb FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::text[], $6::timestamptz[], $7::text[])
AS u(u1, u2, u3, u4, u5, u6, u7)`, t("outbox_dispatch_log")),
		receipt: fmt.Sprintf(`INSERT INTO %s (id, run_id, effect_key, outcome, issued_at, digest, envelope, owed, reason, effect, created_at, issue)
SELECT u1, u2, u3, u4, u5, u6, u7, u7 IS NULL, u8, u9::jsonb, u10, CASE WHEN u7 IS NULL THEN 0 ELSE %s END FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[],
$5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[], $10::timestamptz[]) AS u(u1, u2, u3, u4, u5, u6, u7, u8, u9, u10)`, t("receipts"), l.issueNumber()),
		count: fmt.Sprintf(`UPDATE %s SET committed = committed + $1, abandoned = abandoned + $2 WHERE shard = pg_backend_pid() & 63`, t("ended_counts")),

		channelsOf: fmt.Sprintf(`SELECT clock_timestamp(), c.channel, c.kind, c.sheet::text, c.flag, c.paused, c.pause_reason, c.approval_required,
c.rate_per_minute, c.updated_at FROM json_array_elements_text($1::text::json) AS w(name) LEFT JOIN %s c ON c.channel = w.name`, t("channels")),
		claim: fmt.Sprintf(`INSERT INTO %s AS i (run_id, effect_key, run_epoch, kind, channel, payload_digest, payload, lane, due_at, expires_at, approval, created_at,
trace_parent)
SELECT r.run_id, r.effect_key, r.run_epoch, r.kind, r.channel, r.digest, r.payload, r.lane, r.due_at, r.expires_at, r.approval, r.created_at,
r.trace_parent
FROM json_to_recordset($1::text::json) AS r(n int, run_id uuid, effect_key text, run_epoch bigint, kind text, channel text, digest text,
payload text, lane text, due_at timestamptz, expires_at timestamptz, approval jsonb, created_at timestamptz, trace_parent text)
ORDER BY r.n
ON CONFLICT (run_id, effect_key) DO NOTHING
RETURNING i.run_id::text, i.effect_key, coalesce(i.lane_position, 0), i.due_at, i.created_at, i.queue_seq`, t("effect_intents")),
		existing: fmt.Sprintf(`SELECT %s FROM json_to_recordset($1::text::json) AS k(run_id uuid, effect_key text)
JOIN %s i ON i.run_id = k.run_id AND i.effect_key = k.effect_key`, intentColumns, t("effect_intents")),
		dedupe: fmt.Sprintf(`INSERT INTO %s (id, run_id, effect_key, attempt, outcome, at)
SELECT r.id, r.run_id, r.effect_key, r.attempt, 'deduped', r.at
FROM json_to_recordset($1::text::json) AS r(id uuid, run_id uuid, effect_key text, attempt int, at timestamptz)`, t("outbox_dispatch_log")),
		useApproval: fmt.Sprintf(`INSERT INTO %[1]s (reference, slot, run_id, effect_key)
SELECT $1, n.slot, $3::text::uuid, $4 FROM (SELECT coalesce(max(slot), 0) + 1 AS slot FROM %[1]s WHERE reference = $1) n
WHERE n.slot <= $2 ON CONFLICT DO NOTHING`, t("approvals_used")),
		lease: fmt.Sprintf(`WITH held AS MATERIALIZED (SELECT status, lease_owner, lease_epoch, lease_expires_at FROM %s WHERE id = $1::text::uuid FOR SHARE)
SELECT status, lease_owner, lease_epoch, lease_expires_at, clock_timestamp(), (SELECT max(epoch) FROM %s) FROM held`, t("agent_runs"), t("ledger_epochs")),
		verify: fmt.Sprintf(`SELECT status, lease_owner, lease_epoch, lease_expires_at, clock_timestamp(), (SELECT max(epoch) FROM %s) FROM %s WHERE id = $1::uuid`,
			t("ledger_epochs"), t("agent_runs")),
		channel: fmt.Sprintf(`SELECT channel, kind, sheet::text, flag, paused, pause_reason, approval_required, rate_per_minute, updated_at FROM %s`, t("channels")),
	}
}
