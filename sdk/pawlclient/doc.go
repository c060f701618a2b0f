// Package pawlclient is the Go client of the HTTP API of pawl serve. It links no engine, no ledger and no adapter: the types below
// are the API's JSON as it stands on the wire, and [Client] calls it.
//
// A claim is safe to repeat: the same run, key and payload again is deduplicated. The client therefore retries what may not have
// arrived, and tells apart what the caller must decide on: [Problem] carries the status, the field and the fix.
package pawlclient
