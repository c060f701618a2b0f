// Package client is the engine's side of the wire: a channel.Channel that speaks pawl.adapter.v1. Its reason to exist
// is the one hard question at this border: what became of a send whose reply did not arrive?
//
//	what was seen                                               | answer
//	the request payload never entered the transport             | not sent
//	the process died, its group is gone, its Begin pipe is at
//	  its end without a record, and Begin is proven             | not sent
//	a typed reply to this call                                  | what it says
//	anything else, whatever the status code                     | ambiguous
//
// A gRPC status code proves nothing: a process that was dead already and one that was killed in the middle of the
// effect both give Unavailable, and a deadline that passed before and one that passed during the effect both give
// DeadlineExceeded. What does separate them is whether grpc-go reported an OutPayload event for the call: the
// event is raised only after the payload was queued. That leans on grpc-go, so every row has a regression test.
package client
