package core

// Names of log events. They are stable: alerts may be written on them. Each is the message of a slog record; the attributes
// run_id, effect_key, channel, attempt and fence say which intent.
const (
	EventStarted       = "engine.started"
	EventStopping      = "engine.stopping"
	EventStopped       = "engine.stopped"
	EventFenced        = "effect.fenced"
	EventSent          = "effect.committed"
	EventAccepted      = "effect.accepted"
	EventNotSent       = "effect.not_sent"
	EventRejected      = "effect.rejected"
	EventFailedOutside = "effect.failed_outside"
	EventAmbiguous     = "effect.ambiguous"
	EventReopened      = "effect.reopened"
	EventHeld          = "effect.held"
	EventAbandoned     = "effect.abandoned"
	EventProbed        = "effect.probed"
	EventLate          = "effect.late_evidence"
	EventAlarm         = "effect.alarm"
	EventFenceLost     = "fence.lost"
	EventLedger        = "ledger.unavailable"
	EventLedgerBack    = "ledger.available"
	EventQueueMended   = "queue.mended"
	EventChannelPaused = "channel.paused"
	EventReceiptsPaid  = "receipts.paid"
	EventRunReclaimed  = "run.reclaimed"
)
