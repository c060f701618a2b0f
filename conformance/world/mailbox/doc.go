// Package mailbox is an outside world for mail: a mail server and the mailbox behind it, in one process. It accepts
// mail over SMTP, counts every accepted mail, never removes duplicates, and shows what it has over IMAP. Faults can be
// injected at every phase of a delivery, also in the narrow gap between acceptance and the reply.
//
// A mail is stored (and flushed to the file, if there is one) before the 250 is written, and shown over IMAP from the
// same moment: the mailbox is the store. With Options.StorePath a mailbox that is started again still knows what it
// had accepted.
package mailbox
