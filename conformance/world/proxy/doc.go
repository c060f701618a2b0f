// Package proxy is a TCP proxy that stands between a mail client and a mail server and cuts the connection at a named
// point of the conversation: the way to reach the gap after the final dot (RFC 1047) with any server, at will.
//
// It reads plain SMTP. After a successful STARTTLS it passes bytes on without looking.
package proxy
