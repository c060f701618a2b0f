// Package wire turns the values of core/channel into messages of pawl.adapter.v1 and back, and holds the constants
// that both sides must agree on: the handshake, the inherited descriptors, the Begin record and the message limit.
//
// Reading is forgiving in one direction only: what the reader does not understand becomes the weakest value. An
// unknown outcome is ambiguous, an unknown finding is unknown, an unknown failure of a send is ambiguous.
package wire
