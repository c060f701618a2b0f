package proxy

import "strings"

// Point names a line of an SMTP conversation.
type Point string

const (
	Greeting Point = "greeting" // the server's first line
	// The client's lines.
	Hello     Point = "hello"
	StartTLS  Point = "starttls"
	Auth      Point = "auth"
	Mail      Point = "mail"
	Recipient Point = "recipient"
	Data      Point = "data"
	Body      Point = "body" // one line of the message
	Dot       Point = "dot"  // the final dot
	Quit      Point = "quit"
	Other     Point = "other"
)

// Line is one line that came in, before it is passed on.
type Line struct {
	Connection int    // from 1
	FromServer bool   // a reply; Point is then that of the client's line that it answers
	Point      Point  // where the conversation is
	Text       string // without its line end
}

// Verdict says what to do with a line.
type Verdict int

const (
	Pass      Verdict = iota // pass it on
	CutBefore                // swallow it and cut both connections
	CutAfter                 // pass it on, then cut both connections
	Swallow                  // drop it and go on: the other side waits for ever
)

// Decide judges every line. It is called from the goroutines of the connections.
type Decide func(Line) Verdict

// CutOn cuts at every line of one kind, swallowing it.
func CutOn(point Point, fromServer bool) Decide {
	return func(l Line) Verdict {
		if l.Point == point && l.FromServer == fromServer {
			return CutBefore
		}
		return Pass
	}
}

// SwallowFinalReply passes everything until the server answers the final dot, then cuts: the server has taken the mail
// and the client never hears of it.
func SwallowFinalReply() Decide { return CutOn(Dot, true) }

// conversation follows the lines of one connection. It is guarded by the connection's lock.
type conversation struct {
	last   Point
	inBody bool
}

func (c *conversation) fromClient(text string) Point {
	if c.inBody {
		if text == "." {
			c.inBody, c.last = false, Dot
			return Dot
		}
		return Body
	}
	verb, _, _ := strings.Cut(strings.ToUpper(text), " ")
	switch verb {
	case "EHLO", "HELO":
		c.last = Hello
	case "STARTTLS":
		c.last = StartTLS
	case "AUTH":
		c.last = Auth
	case "MAIL":
		c.last = Mail
	case "RCPT":
		c.last = Recipient
	case "DATA":
		c.last = Data
	case "QUIT":
		c.last = Quit
	default:
		if c.last != Auth { // the later lines of an authentication have no verb
			c.last = Other
		}
	}
	return c.last
}

func (c *conversation) fromServer(text string) Point {
	if c.last == Data && strings.HasPrefix(text, "354") {
		c.inBody = true
	}
	return c.last
}
