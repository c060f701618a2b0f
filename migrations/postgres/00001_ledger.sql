-- +goose Up

-- Intents: one row for each effect that is wanted. The only indexes are on columns that never change, and a page has room for the three
-- updates of a plain life of each of its rows (at 50, a quarter of them left the page while other transactions were open), so
-- every update stays on its page and touches no index.
CREATE TABLE effect_intents (
    run_id uuid NOT NULL,
    effect_key text COLLATE "C" NOT NULL CHECK (effect_key LIKE '%_:_%' AND octet_length(effect_key) <= 640),
    run_epoch bigint NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'intent' CHECK (state IN ('intent', 'dispatched', 'committed', 'abandoned')),
    kind text NOT NULL DEFAULT '',
    channel text COLLATE "C" NOT NULL CHECK (channel <> '' AND octet_length(channel) <= 128),
    payload_digest text COLLATE "C" NOT NULL CHECK (payload_digest ~ '^[0-9a-f]{64}$'),
    payload text NOT NULL,
    fence_owner text NOT NULL DEFAULT '',
    fence_epoch bigint NOT NULL DEFAULT 0,
    fence_expires_at timestamptz,
    ledger_epoch bigint NOT NULL DEFAULT 0,
    probing boolean NOT NULL DEFAULT false,
    probe_first boolean NOT NULL DEFAULT false,
    send_started_at timestamptz,
    first_sent_at timestamptz,
    last_possible_send timestamptz,
    may_have_taken_effect boolean NOT NULL DEFAULT false,
    doubtful_attempts int[] NOT NULL DEFAULT '{}',
    external_ref jsonb,
    late_ref jsonb,
    starts int NOT NULL DEFAULT 0,
    attempts int NOT NULL DEFAULT 0,
    last_error text NOT NULL DEFAULT '',
    lane text COLLATE "C",
    lane_position bigint,
    lane_turn_ended boolean NOT NULL DEFAULT false,
    queue_seq bigint NOT NULL,
    due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    cancel_requested_at timestamptz,
    cancel_reason text NOT NULL DEFAULT '',
    accepted_at timestamptz,
    probe_at timestamptz,
    probes int NOT NULL DEFAULT 0,
    unknowns int NOT NULL DEFAULT 0,
    absent_since timestamptz,
    held_at timestamptz,
    hold_reason text NOT NULL DEFAULT '',
    abandon_reason text NOT NULL DEFAULT '',
    abandoned_as text NOT NULL DEFAULT '',
    established text NOT NULL DEFAULT '',
    decided_by text NOT NULL DEFAULT '',
    proof text NOT NULL DEFAULT '',
    approval jsonb,
    sheet jsonb,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    committed_at timestamptz,
    PRIMARY KEY (run_id, effect_key),
    CHECK (may_have_taken_effect = (cardinality(doubtful_attempts) > 0)),
    CHECK ((lane IS NULL) = (lane_position IS NULL)),
    CHECK (state <> 'committed' OR external_ref IS NOT NULL),
    CHECK (state <> 'abandoned' OR abandoned_as IN ('never_sent', 'refused', 'failed_outside', 'unknown')),
    CHECK (abandoned_as NOT IN ('never_sent', 'refused') OR (send_started_at IS NULL AND NOT may_have_taken_effect))
) WITH (fillfactor = 25);
CREATE UNIQUE INDEX effect_intents_lane ON effect_intents (lane, lane_position) WHERE lane IS NOT NULL;

-- What a channel made before the first send. Append only, but for dead_at.
CREATE TABLE effect_tokens (
    run_id uuid NOT NULL,
    effect_key text COLLATE "C" NOT NULL,
    version int NOT NULL CHECK (version > 0),
    channel text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    token bytea NOT NULL,
    hint bytea,
    life interval NOT NULL DEFAULT '0',
    excludes_earlier boolean NOT NULL DEFAULT false,
    lane_number bigint NOT NULL DEFAULT 0,
    made_at timestamptz NOT NULL,
    dead_at timestamptz,
    PRIMARY KEY (run_id, effect_key, version),
    CONSTRAINT effect_tokens_digest UNIQUE (channel, digest)
);

-- lane_order gives out places in a lane: whoever claims holds its row until commit, so places are in order of commit. lanes holds the
-- turn (the place that may go) and the last number of the lane's sequence.
CREATE TABLE lane_order (
    lane text COLLATE "C" PRIMARY KEY,
    next bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE lanes (
    lane text COLLATE "C" PRIMARY KEY,
    turn bigint NOT NULL DEFAULT 1,
    number bigint NOT NULL DEFAULT 0,
    wanted boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);
CREATE INDEX lanes_wanted ON lanes (lane) WHERE wanted;

-- Hints, one for each intent that has not ended: who looks at it, and when. Emptied by hand, it is rebuilt by the scan.
CREATE SEQUENCE dispatch_queue_seq;
CREATE TABLE dispatch_queue (
    seq bigint PRIMARY KEY,
    run_id uuid NOT NULL,
    effect_key text COLLATE "C" NOT NULL,
    channel text COLLATE "C" NOT NULL,
    phase text NOT NULL DEFAULT 'send' CHECK (phase IN ('send', 'look')),
    due_at timestamptz NOT NULL,
    turn_waiting boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX dispatch_queue_send ON dispatch_queue (channel, due_at, seq) WHERE phase = 'send' AND NOT turn_waiting;
CREATE INDEX dispatch_queue_look ON dispatch_queue (channel, due_at) WHERE phase = 'look';

-- Everything that happened, append only. No foreign key: late evidence for a row that was lost must still fit.
CREATE TABLE outbox_dispatch_log (
    id uuid PRIMARY KEY,
    run_id uuid NOT NULL,
    effect_key text COLLATE "C" NOT NULL,
    attempt int NOT NULL,
    outcome text NOT NULL,
    at timestamptz NOT NULL,
    detail jsonb
);
CREATE INDEX outbox_dispatch_log_run ON outbox_dispatch_log (run_id);

-- What workers knew whose fence was gone. Append only, but for used_at.
CREATE TABLE late_evidence (
    id uuid PRIMARY KEY,
    run_id uuid NOT NULL,
    effect_key text COLLATE "C" NOT NULL,
    ledger_epoch bigint NOT NULL,
    fence_epoch bigint NOT NULL,
    fence_owner text NOT NULL,
    attempt int NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('sent', 'not_sent')),
    evidence jsonb NOT NULL,
    reason text NOT NULL DEFAULT '',
    at timestamptz NOT NULL,
    used_at timestamptz
);
CREATE INDEX late_evidence_key ON late_evidence (run_id, effect_key);

-- One piece of evidence belongs to one intent, on channels whose ids name one effect.
CREATE TABLE evidence_ids (
    channel text COLLATE "C" NOT NULL,
    evidence_id text COLLATE "C" NOT NULL,
    run_id uuid NOT NULL,
    effect_key text COLLATE "C" NOT NULL,
    PRIMARY KEY (channel, evidence_id)
);

-- Runs and their leases.
CREATE TABLE agent_runs (
    id uuid PRIMARY KEY,
    status text NOT NULL DEFAULT 'ready'
        CHECK (status IN ('ready', 'leased', 'running', 'completed', 'failed', 'cancelled', 'quarantined')),
    lease_owner text NOT NULL DEFAULT '',
    lease_epoch bigint NOT NULL DEFAULT 0,
    lease_expires_at timestamptz,
    retries int NOT NULL DEFAULT 0,
    idempotency_key text COLLATE "C",
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT agent_runs_idempotency_key UNIQUE (idempotency_key)
) WITH (fillfactor = 70);
CREATE INDEX agent_runs_leased ON agent_runs (id) WHERE status IN ('leased', 'running');

CREATE TABLE channels (
    channel text COLLATE "C" PRIMARY KEY,
    kind text NOT NULL,
    sheet jsonb NOT NULL,
    flag text NOT NULL DEFAULT 'on' CHECK (flag IN ('off', 'paused', 'shadow', 'on')),
    paused boolean NOT NULL DEFAULT false,
    pause_reason text NOT NULL DEFAULT '',
    approval_required boolean NOT NULL DEFAULT false,
    rate_per_minute int NOT NULL DEFAULT 0,
    rate_tokens double precision NOT NULL DEFAULT 0,
    rate_at timestamptz,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

CREATE TABLE engine_instances (
    id text COLLATE "C" PRIMARY KEY,
    host text NOT NULL,
    process int NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL,
    last_seen timestamptz NOT NULL,
    stopped_at timestamptz
) WITH (fillfactor = 50);

-- Receipts, signed or still owed (then effect holds what is to be signed).
CREATE TABLE receipts (
    id uuid PRIMARY KEY,
    run_id uuid NOT NULL,
    effect_key text COLLATE "C" NOT NULL,
    outcome text NOT NULL,
    issued_at timestamptz,
    digest text NOT NULL DEFAULT '',
    envelope text,
    owed boolean NOT NULL DEFAULT false,
    reason text NOT NULL DEFAULT '',
    effect jsonb,
    created_at timestamptz NOT NULL,
    CHECK (owed = (envelope IS NULL))
);
CREATE INDEX receipts_run ON receipts (run_id);
CREATE INDEX receipts_issued ON receipts (issued_at, id) WHERE NOT owed;
CREATE INDEX receipts_owed ON receipts (created_at, id) WHERE owed;

-- How often an approval's reference served: one slot for each intent.
CREATE TABLE approvals_used (
    reference text COLLATE "C" NOT NULL,
    slot int NOT NULL,
    run_id uuid NOT NULL,
    effect_key text COLLATE "C" NOT NULL,
    used_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (reference, slot)
);

-- Lives of the ledger.
CREATE TABLE ledger_epochs (
    ledger_id uuid NOT NULL,
    epoch bigint PRIMARY KEY CHECK (epoch > 0),
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    horizon interval NOT NULL DEFAULT '0'
);
INSERT INTO ledger_epochs (ledger_id, epoch) VALUES (gen_random_uuid(), 1);

-- Counts of ended intents, spread over rows so that writers seldom meet.
CREATE TABLE ended_counts (
    shard int PRIMARY KEY,
    committed bigint NOT NULL DEFAULT 0,
    abandoned bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20);
INSERT INTO ended_counts (shard) SELECT generate_series(0, 63);
