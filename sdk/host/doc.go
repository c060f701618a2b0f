// Package host is the engine's side of an adapter process: it pins the binary, starts it, speaks to it, supervises it
// and ends it. [Launch] returns an [Adapter], which is a channel.Channel, so that the engine cannot tell an adapter
// process from a channel in its own.
//
// # One goroutine owns one adapter
//
//	   ┌──────────────────────────── crash ─────────────────────────────┐
//	   ▼                                                                │
//	Backoff ──▶ Starting ──▶ Describing ──▶ Configuring ──▶ Ready ──────┤
//	               ▲                                          │ Close   │ 5 crashes in 10 minutes,
//	               │ Reset, or time                           ▼         ▼ or a fault that a retry cannot mend
//	           Quarantined ◀──────────────────────────     Draining ──▶ Stopped
//
// Outside Ready a Send answers NotSent at once; a token or a probe answers [*NotReadyError]. No call is ever made a second
// time by the supervisor. Each life of the process is a generation with a number that only grows.
//
// # What is sure when a process dies
//
// The process leads a process group of its own. When it has ended, the whole group is killed before the leader is
// reaped, so that its number cannot have been given to another. "Not sent" is concluded for a call without an answer
// only if the group is gone, the Begin pipe is at its end and intact, and the call has no record. A descendant that
// left the group and holds the pipe open leaves the answer ambiguous, after a bounded wait.
//
// # Who can end what
//
//	the engine dies, by whatever signal | the lifeline closes and the adapter ends; on Linux the kernel kills it as well
//	the adapter dies                    | the engine starts another one, after a backoff
//	the adapter hangs                   | health checks without an answer; then its group is killed
//	the adapter ignores the end         | its group is killed when the grace period is over
//
// # Secrets
//
// The configuration reaches the adapter by a call. It is in no argument, environment, log or error; values under keys
// that look like secrets are also taken out of what the adapter itself logs or answers.
package host
