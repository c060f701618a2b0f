// Package pawlclient is the Go client of the HTTP API of pawl serve. It links no engine, no ledger and no adapter: the types below
// are the API's JSON as it stands on the wire, and [Client] calls it.
//
// A claim is safe to repeat: the same run, key and payload again is deduplicated. The client therefore retries what may not have
// arrived, and tells apart what the caller must decide on: [Problem] carries the status, the field and the fix.
//
// # Use
//
// Make one [Client] with [New], and keep it. [Client.Claim] asks for an effect, and is done once the ledger has it: the effect takes
// place later, whether the caller lives or not. Whoever wants to know what became of it asks with [Client.Wait], then or at any time,
// and looks at [Intent.Ended], State and Outcome: an intent that waits for a person has ended in this sense, and is not committed.
//
// RunID is a UUID of the caller's own, one for each unit of work; it must be made only where the run has a lease ([Client.CreateRun]).
// EffectKey begins with the kind of the channel and a colon (mail:confirm-7 for mail/shop), and is the same at every try, so it holds no
// time and no random value. For mail and file it may be left out: it is then made from the payload.
//
// # Errors
//
//   - [*Problem]: the service said no. Decide on Code; Errors names the fields.
//   - [*UnreachableError]: no answer, after all tries. A claim may have been taken: claim it again later, under the same key.
//   - [*UnclearError]: an order such as a pause or a decision got no answer and may have been done: look before giving it again.
package pawlclient
