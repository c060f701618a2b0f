// Package observe makes a running Pawl visible: metrics for Prometheus, traces over OTLP/HTTP, answers to health checks, and log records
// that name their trace. The engine and the SDK speak OpenTelemetry's API; what stands behind it in the service is here, and only here.
//
//	o := Start(…)                          before the engine: its providers are the engine's
//	engine options: o.MeterProvider(), o.TracerProvider()
//	o.Watch(Sources{Ledger, Engine, …})    after the engine: what is read at each scrape
//	/metrics                               o.MetricsHandler()
//	/healthz, /readyz                      Health(Loops(engine)), Health(Heartbeat(engine), …)
//	o.Close(ctx)                           flushes spans
//
// # What a scrape reads
//
// Counters and histograms come from this process. What only the ledger knows (how much waits, and for how long) is read from it at each
// scrape, in one question that is given up after two seconds: then pawl_ledger_up is 0 and the ledger's other gauges are left out,
// rather than standing still at a value that was true once.
//
// # What is never in it
//
// Labels are channels, states and other values of closed sets: never a run, a key or a text. Spans name run and effect key, never a
// payload, a token, evidence or a text of the outside system.
package observe
