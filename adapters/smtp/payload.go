package smtp

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"slices"
	"sort"
	"strings"
)

// schema is the JSON Schema of the payload.
//
//go:embed payload.schema.json
var schema []byte

// Limits of a payload and of the message that it becomes, in bytes. The first two keep payload and message together
// below the 32 MiB of one call between engine and adapter; the others keep header lines below 998 octets.
const (
	maxPayload     = 14 << 20
	maxMessage     = 17 << 20
	maxSubject     = 900
	maxHeaderValue = 900
	maxFileName    = 200
	maxAttachments = 100
)

// Payload is what a claim of the kind "mail" carries.
type Payload struct {
	From        string            `json:"from,omitempty"` // must be from or senders of the configuration
	To          json.RawMessage   `json:"to"`             // one address, a string
	ReplyTo     string            `json:"reply_to,omitempty"`
	Subject     string            `json:"subject"`
	Text        string            `json:"text"`
	HTML        string            `json:"html,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Attachments []Attachment      `json:"attachments,omitempty"`
}

// Attachment is one file.
type Attachment struct {
	Name        string `json:"name"`
	ContentType string `json:"content_type"`
	Content     []byte `json:"content"` // base64
}

// letter is a checked payload.
type letter struct {
	Payload
	from, to, replyTo address
	headerNames       []string // sorted
}

// allowedHeaders are the header fields that a payload may always set. No X- field is among them: some services read
// commands from such fields, further recipients even.
var allowedHeaders = []string{
	"Auto-Submitted", "Feedback-Id", "Importance", "In-Reply-To", "List-Archive", "List-Help", "List-Id", "List-Owner", "List-Post",
	"List-Subscribe", "List-Unsubscribe", "List-Unsubscribe-Post", "Precedence", "References",
}

// ownHeaders are fields that the adapter sets or that route mail; no configuration can open them.
var ownHeaders = []string{
	"Bcc", "Cc", "Content-Disposition", "Content-Id", "Content-Transfer-Encoding", "Content-Type", "Date", "Delivered-To", "From",
	"Message-Id", "Mime-Version", "Received", "Reply-To", "Return-Path", "Sender", "Subject", "To",
}

func checkAllowedHeader(name string) error {
	if !isHeaderName(name) {
		return fmt.Errorf("headers: %q is not the name of a header field", name)
	}
	canonical := canonicalHeader(name)
	if slices.Contains(ownHeaders, canonical) || strings.HasPrefix(canonical, "Resent-") || canonical == "X-Smtpapi" {
		return fmt.Errorf("headers: %s is set by the adapter or changes who gets the mail, it cannot be opened", name)
	}
	return nil
}

// isHeaderName allows letters, digits and hyphens, at most 60.
func isHeaderName(name string) bool {
	if name == "" || len(name) > 60 {
		return false
	}
	for _, r := range name {
		if r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return true
}

func canonicalHeader(name string) string {
	parts := strings.Split(strings.ToLower(name), "-")
	for i, p := range parts {
		if p != "" {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "-")
}

// fieldError says which field of the payload is wrong.
func fieldError(field string, err error) error { return fmt.Errorf("payload field %s: %w", field, err) }

// read checks a payload. Every error names the field.
func (c *Config) read(raw []byte) (*letter, error) {
	if len(raw) > maxPayload {
		return nil, fmt.Errorf("payload has %d bytes, at most %d fit: send a link instead of an attachment", len(raw), maxPayload)
	}
	l := new(letter)
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&l.Payload); err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	if decoder.More() {
		return nil, errors.New("payload: something follows the JSON object")
	}
	for _, step := range []func(*letter) error{c.readAddresses, readSubject, c.readHeaders, readAttachments} {
		if err := step(l); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (c *Config) readAddresses(l *letter) error {
	var to string
	if err := json.Unmarshal(l.To, &to); err != nil {
		if bytes.HasPrefix(bytes.TrimSpace(l.To), []byte("[")) {
			return fieldError("to", errSeveralAddresses)
		}
		return fieldError("to", errors.New("must be one address, as a string"))
	}
	var err error
	if l.to, err = parseAddress(to); err != nil {
		return fieldError("to", err)
	}
	l.from = c.from
	if l.From != "" {
		if l.from, err = parseAddress(l.From); err != nil {
			return fieldError("from", err)
		}
		if !slices.ContainsFunc(c.senders, func(s address) bool { return s.addr() == l.from.addr() }) {
			return fieldError("from", fmt.Errorf("%s is neither from nor one of senders in the channel's configuration", l.from.addr()))
		}
	}
	if l.ReplyTo != "" {
		if l.replyTo, err = parseAddress(l.ReplyTo); err != nil {
			return fieldError("reply_to", err)
		}
	}
	return nil
}

func readSubject(l *letter) error {
	if err := checkText(l.Subject); err != nil {
		return fieldError("subject", err)
	}
	if len(l.Subject) > maxSubject {
		return fieldError("subject", fmt.Errorf("has %d octets, at most %d fit", len(l.Subject), maxSubject))
	}
	return nil
}

func (c *Config) readHeaders(l *letter) error {
	seen := map[string]string{}
	for name, value := range l.Headers {
		field := "headers." + name
		if !isHeaderName(name) {
			return fieldError(fmt.Sprintf("headers (%q)", name), errors.New("is not the name of a header field"))
		}
		canonical := canonicalHeader(name)
		allowed := slices.Contains(allowedHeaders, canonical) ||
			slices.ContainsFunc(c.Headers, func(h string) bool { return canonicalHeader(h) == canonical })
		if !allowed {
			return fieldError(field, errors.New("is not allowed: add its name to headers in the channel's configuration"))
		}
		if other, twice := seen[canonical]; twice {
			return fieldError(field, fmt.Errorf("is there twice, also as %s", other))
		}
		seen[canonical] = name
		if err := checkText(value); err != nil {
			return fieldError(field, err)
		}
		if value == "" || len(value) > maxHeaderValue {
			return fieldError(field, fmt.Errorf("has %d octets, 1 to %d fit", len(value), maxHeaderValue))
		}
		if slices.Contains(allowedHeaders, canonical) && !isASCII(value) {
			return fieldError(field, errors.New("has letters beyond ASCII, which this field cannot carry"))
		}
		l.headerNames = append(l.headerNames, name)
	}
	sort.Strings(l.headerNames)
	return nil
}

func readAttachments(l *letter) error {
	if len(l.Attachments) > maxAttachments {
		return fieldError("attachments", fmt.Errorf("has %d entries, at most %d fit", len(l.Attachments), maxAttachments))
	}
	for i, a := range l.Attachments {
		field := fmt.Sprintf("attachments[%d]", i)
		if err := checkText(a.Name); err != nil {
			return fieldError(field+".name", err)
		}
		if a.Name == "" || len(a.Name) > maxFileName {
			return fieldError(field+".name", fmt.Errorf("has %d octets, 1 to %d fit", len(a.Name), maxFileName))
		}
		if err := checkText(a.ContentType); err != nil {
			return fieldError(field+".content_type", err)
		}
		media, parameters, err := mime.ParseMediaType(a.ContentType)
		if err != nil || !strings.Contains(media, "/") || len(a.ContentType) > maxFileName {
			return fieldError(field+".content_type", errors.New("is not a media type such as application/pdf"))
		}
		if strings.HasPrefix(media, "multipart/") || strings.HasPrefix(media, "message/") {
			return fieldError(field+".content_type", errors.New("must not be multipart or message: use application/octet-stream"))
		}
		for key, value := range parameters {
			if key != "charset" || !strings.EqualFold(value, "utf-8") && !strings.EqualFold(value, "us-ascii") {
				return fieldError(field+".content_type", fmt.Errorf("has the parameter %s: only charset=utf-8 or us-ascii is allowed", key))
			}
		}
	}
	return nil
}
