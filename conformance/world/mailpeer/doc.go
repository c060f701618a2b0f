// Package mailpeer runs a real Postfix with a real Dovecot behind it on loopback ports, in a directory of its own: mail
// is taken over SMTP, kept in a queue, handed over by LMTP and shown over IMAP. Both servers end with Close.
//
// It needs the Debian packages postfix, dovecot-imapd and dovecot-lmtpd, and root: both servers change to their own
// users. [Start] says with [ErrUnavailable] that one of them is missing; [StartForTest] skips then, or fails where CI
// is "true".
package mailpeer
