package smtp

import (
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Limits of RFC 5321 section 4.5.3.1 and RFC 3696, in octets.
const (
	maxLocalPart = 64
	maxDomain    = 253
	maxAddress   = 254
	// maxAddressText bounds an address with its name; the header line must stay below 998 octets.
	maxAddressText = 900
)

// address is a checked address. Its domain is in lower-case A-label form; local may hold letters beyond ASCII.
type address struct {
	name   string
	local  string
	domain string
}

var errSeveralAddresses = errors.New("holds several addresses: claim one intent for each recipient, so that each mail has an outcome of its own")

// parseAddress reads one address, with or without a display name.
func parseAddress(text string) (address, error) {
	if err := checkText(text); err != nil {
		return address{}, err
	}
	if len(text) > maxAddressText {
		return address{}, fmt.Errorf("has %d octets, at most %d fit", len(text), maxAddressText)
	}
	parsed, err := mail.ParseAddress(text)
	if err != nil {
		if list, listErr := mail.ParseAddressList(text); listErr == nil && len(list) > 1 {
			return address{}, errSeveralAddresses
		}
		return address{}, fmt.Errorf("%q is not an address such as name@example.org or Name <name@example.org>", text)
	}
	// An encoded word in the name may decode to anything.
	if err := checkText(parsed.Name); err != nil {
		return address{}, fmt.Errorf("the name: %w", err)
	}
	at := strings.LastIndexByte(parsed.Address, '@')
	if at < 0 {
		return address{}, fmt.Errorf("%q has no @", text)
	}
	a := address{name: parsed.Name, local: parsed.Address[:at]}
	if err := checkLocalPart(a.local); err != nil {
		return address{}, err
	}
	if a.domain, err = asciiDomain(parsed.Address[at+1:]); err != nil {
		return address{}, err
	}
	if n := len(a.addr()); n > maxAddress {
		return address{}, fmt.Errorf("the address has %d octets, at most %d are allowed", n, maxAddress)
	}
	return a, nil
}

// addr is the bare address, as it stands in the envelope.
func (a address) addr() string { return a.local + "@" + a.domain }

// header is the address as it stands in a header field.
func (a address) header() string {
	bare := "<" + a.addr() + ">"
	switch {
	case a.name == "":
		return bare
	case isASCII(a.name) && !strings.Contains(a.name, "=?"):
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(a.name) + `" ` + bare
	}
	// Base64 only: the other encoding leaves characters that a name may not have (net/mail writes names that it cannot
	// read).
	return encodedWords(a.name) + " " + bare
}

// needsUTF8 reports whether only a server with SMTPUTF8 can take the address.
func (a address) needsUTF8() bool { return !isASCII(a.local) }

// checkLocalPart allows what needs no quotes: RFC 5322 dot-atoms, with letters beyond ASCII (RFC 6531).
func checkLocalPart(local string) error {
	if local == "" || len(local) > maxLocalPart {
		return fmt.Errorf("the part before the @ has %d octets, 1 to %d are allowed", len(local), maxLocalPart)
	}
	if strings.HasPrefix(local, ".") || strings.HasSuffix(local, ".") || strings.Contains(local, "..") {
		return errors.New("the part before the @ has a dot at an end or two in a row")
	}
	for _, r := range local {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(".!#$%&'*+-/=?^_`{|}~", r):
		case r >= utf8.RuneSelf && r != utf8.RuneError && unicode.IsGraphic(r) && !unicode.IsSpace(r):
		default:
			return fmt.Errorf("the part before the @ has %q, which would need quotes; quoted addresses are not supported", r)
		}
	}
	return nil
}

// asciiDomain returns the domain in lower-case A-label form.
func asciiDomain(domain string) (string, error) {
	ascii, err := idna.Lookup.ToASCII(strings.TrimSuffix(domain, "."))
	if err != nil {
		return "", fmt.Errorf("the domain %q is not valid: %w", domain, err)
	}
	if ascii == "" || len(ascii) > maxDomain || strings.ContainsAny(ascii, "[]: ") {
		return "", fmt.Errorf("the domain %q is not valid: use a name such as example.org", domain)
	}
	return ascii, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// checkText refuses what could end a header field or hide in one.
func checkText(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("is not valid UTF-8")
	}
	for _, r := range text {
		// U+2028 and U+2029 end a line for some readers.
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return fmt.Errorf("has the control character %U: remove it", r)
		}
	}
	return nil
}
