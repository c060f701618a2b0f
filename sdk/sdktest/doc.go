// Package sdktest runs an adapter inside a test. Calls cross the real codec, over gRPC in memory, and Begin is the
// SDK's own; only the process around it is missing. A test can move the adapter's clocks, cut its lifeline and step in
// at Begin.
package sdktest
