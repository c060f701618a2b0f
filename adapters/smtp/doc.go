// Package smtp is the adapter of the kind "mail": one effect is one mail to one recipient, handed to the configured
// mail server. The effect is complete when that server takes responsibility for it: its 250 after the final dot.
//
// # What makes a mail fire once
//
// SMTP removes no duplicates: the same mail sent twice is two mails. So the complete message is made once and stored
// with the intent (its Message-ID is a hash of the intent, its boundaries follow from it), a send never repeats
// anything, and what became of an attempt whose reply was lost is asked of a mailbox, over IMAP.
//
// # The final dot
//
// A server may take a mail from the moment that it has the final dot, and not before. [gate] stands at the connection
// and lets no final dot through without Begin: everything before the dot is on the wire when Begin is called, and only
// the dot follows it. Whatever fails before is proven not sent; whatever fails after it, short of a reply, is
// ambiguous.
//
// # Files
//
// config.go and payload.go are what a user writes; address.go, identity.go and message.go make the token from it;
// connect.go, gate.go, send.go and reply.go are one mail transaction; probe.go and imap.go look for it afterwards.
package smtp
