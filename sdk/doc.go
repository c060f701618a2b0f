// Package sdk is what the author of a channel adapter imports. An adapter is a program whose main is one line:
//
//	func main() { os.Exit(sdk.Main(adapter)) }
//
// where adapter names its capability sheet and a function that makes a [Channel] from the configuration. Main owns
// everything around the three methods of a Channel: the handshake with the engine, logging, standard output, the
// end of the process when the engine ends, message limits, panics, and [Attempt.Begin].
//
// The values that cross the border are those of package core/channel, repeated here by alias, so that an author needs
// one import. The engine's side is package sdk/host; package sdk/sdktest runs an adapter inside a test.
//
// # What Main takes over
//
//   - Standard output belongs to the handshake. Whatever the adapter prints goes to standard error instead.
//   - Standard error carries one JSON object per line. Use [Logger]; never print secrets.
//   - Descriptor 3 is the lifeline: when it is at its end the engine is gone and the process ends. Descriptor 4 is the
//     pipe for Begin records. Children of the adapter inherit neither.
//   - The configuration arrives by a call, never by argument or environment.
//   - Each call is a span (pawl.adapter.send, pawl.adapter.probe, pawl.adapter.token) in the trace of its effect, and the
//     context that the method is given carries it. Spans go to the process's tracer provider: nowhere, unless the
//     program's main sets one up. The SDK links OpenTelemetry's API only.
//   - A panic in a method becomes an answer. A panic in a goroutine of the adapter's own ends the process, which
//     the engine survives.
package sdk
