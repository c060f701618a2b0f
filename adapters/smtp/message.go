package smtp

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/emersion/go-message"
)

// maxLine is the longest line that SMTP carries, in octets, without its end.
const maxLine = 998

// compose makes the complete message. It is a pure function of the letter, the Message-ID and the date: boundaries
// follow from the Message-ID.
func compose(l *letter, id string, date time.Time) ([]byte, error) {
	var out bytes.Buffer
	root := part{boundary: boundary(id, "mixed")}
	content := textPart(l.Text, "plain")
	if l.HTML != "" {
		content = part{
			kind: "multipart/alternative", boundary: boundary(id, "alternative"),
			parts: []part{content, textPart(l.HTML, "html")},
		}
	}
	if len(l.Attachments) == 0 {
		root = content
	} else {
		root.kind = "multipart/mixed"
		root.parts = append(root.parts, content)
		for _, a := range l.Attachments {
			root.parts = append(root.parts, attachmentPart(a))
		}
	}
	var header message.Header
	root.addTo(&header)
	l.addTo(&header, id, date)
	w, err := message.CreateWriter(&out, header)
	if err != nil {
		return nil, err
	}
	if err := root.write(w); err != nil {
		return nil, err
	}
	raw := out.Bytes()
	if !bytes.HasSuffix(raw, []byte("\r\n")) {
		raw = append(raw, "\r\n"...)
	}
	return raw, checkWire(raw, l.needsUTF8())
}

// needsUTF8 reports whether only a server with SMTPUTF8 can take the mail.
func (l *letter) needsUTF8() bool {
	return l.from.needsUTF8() || l.to.needsUTF8() || l.ReplyTo != "" && l.replyTo.needsUTF8()
}

// addTo fills the header. Fields come out in the opposite order of their adding.
func (l *letter) addTo(h *message.Header, id string, date time.Time) {
	h.AddRaw([]byte("MIME-Version: 1.0\r\n"))
	for i := len(l.headerNames) - 1; i >= 0; i-- {
		h.Add(l.headerNames[i], encodeWords(l.Headers[l.headerNames[i]]))
	}
	h.Add("Subject", encodeWords(l.Subject))
	// Raw, because the usual way would write Message-Id: right, but not what people search logs and mails for.
	h.AddRaw([]byte("Message-ID: <" + id + ">\r\n"))
	h.Add("Date", date.UTC().Format(time.RFC1123Z))
	if l.ReplyTo != "" {
		h.Add("Reply-To", l.replyTo.header())
	}
	h.Add("To", l.to.header())
	h.Add("From", l.from.header())
}

// wordBytes is how much text goes into one encoded word, which may have 75 characters.
const wordBytes = 42

// encodeWords writes text so that a reader gets it back as it is (RFC 2047). Plain ASCII stays as it is.
func encodeWords(text string) string {
	// What looks like an encoded word would be decoded; spaces at the ends, and two in a row, would be lost.
	if !strings.Contains(text, "=?") && !strings.Contains(text, "  ") && strings.TrimSpace(text) == text {
		return mime.QEncoding.Encode("utf-8", text)
	}
	return encodedWords(text)
}

func encodedWords(text string) string {
	var words []string
	for len(text) > 0 {
		n := min(wordBytes, len(text))
		for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		words = append(words, "=?utf-8?b?"+base64.StdEncoding.EncodeToString([]byte(text[:n]))+"?=")
		text = text[n:]
	}
	return strings.Join(words, " ")
}

// part is one node of the message.
type part struct {
	kind        string
	boundary    string
	parts       []part
	encoding    string
	disposition string
	body        []byte
}

func textPart(text, subtype string) part {
	p := part{kind: "text/" + subtype + "; charset=utf-8", encoding: "quoted-printable", body: []byte(crlf(text))}
	beyond := 0
	for _, b := range p.body {
		if b >= utf8.RuneSelf {
			beyond++
		}
	}
	if beyond*6 > len(p.body) { // from there on base64 is the shorter one
		p.encoding = "base64"
	}
	return p
}

func attachmentPart(a Attachment) part {
	return part{
		kind: a.ContentType, encoding: "base64", body: a.Content,
		disposition: "attachment; " + fileName(a.Name),
	}
}

// fileName is the parameter with the name of a file: quoted if it is plain, else after RFC 2231, which loses nothing.
// A long field is folded at a space, and some readers drop the second of two.
func fileName(name string) string {
	if isASCII(name) && !strings.ContainsAny(name, `"\`) && !strings.Contains(name, "  ") && strings.TrimSpace(name) == name {
		return `filename="` + name + `"`
	}
	var b strings.Builder
	b.WriteString("filename*=utf-8''")
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_' {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

func (p part) addTo(h *message.Header) {
	if p.disposition != "" {
		h.Add("Content-Disposition", p.disposition)
	}
	if p.encoding != "" {
		h.Add("Content-Transfer-Encoding", p.encoding)
	}
	kind := p.kind
	if p.boundary != "" {
		kind += `; boundary="` + p.boundary + `"`
	}
	h.Add("Content-Type", kind)
}

func (p part) write(w *message.Writer) error {
	if p.boundary == "" {
		if _, err := w.Write(p.body); err != nil {
			return err
		}
		return w.Close()
	}
	for _, child := range p.parts {
		var h message.Header
		child.addTo(&h)
		cw, err := w.CreatePart(h)
		if err != nil {
			return err
		}
		if err := child.write(cw); err != nil {
			return err
		}
	}
	return w.Close()
}

// boundary follows from the Message-ID. It has "=_", which neither quoted-printable nor base64 can write: no text can
// contain it.
func boundary(id, which string) string {
	local, _, _ := strings.Cut(id, "@")
	return "=_" + which[:1] + "_" + local[:min(len(local), 40)]
}

// crlf gives every line the line end of mail.
func crlf(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	return strings.ReplaceAll(text, "\n", "\r\n")
}

// checkWire proves that what was composed can go over the wire as it is.
func checkWire(raw []byte, beyondASCII bool) error {
	if !bytes.HasSuffix(raw, []byte("\r\n")) {
		return errors.New("the message does not end with a line end")
	}
	for n, line := range bytes.Split(raw[:len(raw)-2], []byte("\r\n")) {
		if len(line) > maxLine {
			return fmt.Errorf("line %d of the message has %d octets, at most %d fit: shorten the field", n+1, len(line), maxLine)
		}
		if bytes.ContainsAny(line, "\r\n\x00") {
			return fmt.Errorf("line %d of the message has a bare control character", n+1)
		}
		if !beyondASCII && bytes.ContainsFunc(line, func(r rune) bool { return r >= utf8.RuneSelf }) {
			return fmt.Errorf("line %d of the message has an octet beyond ASCII", n+1)
		}
	}
	return nil
}
