package canonical

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKeyBytes is the longest effect key. Keys are primary keys and appear in
// logs, receipts and URLs.
const MaxKeyBytes = 512

// KeyError says which part of an effect key cannot be used.
type KeyError struct {
	Part string // the name of the part, for example "chatID"
	Msg  string
	Err  error // the cause, or nil
}

func (e *KeyError) Error() string { return "effect key: " + e.Part + ": " + e.Msg }

// Unwrap returns the cause.
func (e *KeyError) Unwrap() error { return e.Err }

func badPart(part, msg string) error { return &KeyError{Part: part, Msg: msg} }

// TelegramKey returns telegram:<chatID>:<digest of the text>. chatID is the
// number or the @name of the chat.
func TelegramKey(chatID, text string) (string, error) {
	if err := checkPart("chatID", chatID); err != nil {
		return "", err
	}
	if text == "" {
		return "", badPart("text", "is empty")
	}
	return finishKey("telegram:"+chatID, "text", text)
}

// FarcasterKey returns farcaster:cast:<digest of {text, embeds, channel}>.
// embeds is the list as the cast carries it. A nil embeds (or nil list) and an
// empty channel are left out of the digest; an empty list that is not nil is
// written as [], so a caller must not alternate between the two.
func FarcasterKey(text string, embeds any, channel string) (string, error) {
	identity := map[string]any{"text": text}
	if !isNil(embeds) {
		identity["embeds"] = embeds
	}
	if text == "" && isBlank(embeds) {
		return "", badPart("text", "is empty, and there are no embeds")
	}
	if channel != "" {
		identity["channel"] = channel
	}
	return finishKey("farcaster:cast", "text, embeds, channel", identity)
}

// MailKey returns mail:<toHash>:<digest of {subject, body}>. body is the text
// part of the mail. toHash is the SHA-256 of the recipients' addresses, each
// with its domain in lower-case A-label form and its local part untouched,
// sorted by UTF-16 code units, each once, joined by line feeds. Subject or body
// may be empty, not both.
func MailKey(recipients []string, subject, body string) (string, error) {
	to, err := recipientsHash(recipients)
	if err != nil {
		return "", err
	}
	if subject == "" && body == "" {
		return "", badPart("subject", "is empty, and so is body")
	}
	return finishKey("mail:"+to, "subject, body", map[string]string{"subject": subject, "body": body})
}

// OnchainKey returns onchain:<chainID>:<contract>:<method>:<digest of args>.
// The parts are used as they are: a contract must always be spelled the same,
// and its letters keep their case. args is the list of arguments, empty but not
// nil for a method without any.
func OnchainKey(chainID, contract, method string, args any) (string, error) {
	for _, p := range []struct{ name, value string }{
		{"chainID", chainID}, {"contract", contract}, {"method", method},
	} {
		if err := checkPart(p.name, p.value); err != nil {
			return "", err
		}
	}
	if isNil(args) {
		return "", badPart("args", "is nil; give an empty list for a method without arguments")
	}
	return finishKey("onchain:"+chainID+":"+contract+":"+method, "args", args)
}

// Key returns <prefix>:<digest of identity>, for every other kind. prefix is
// the kind, and may go on behind a colon ("webhook:orders"). identity is what
// makes the effect the one it is; an empty one is refused, because it would
// make all effects of the kind the same.
func Key(prefix string, identity any) (string, error) {
	if prefix == "" {
		return "", badPart("prefix", "is empty")
	}
	for _, part := range strings.Split(prefix, ":") {
		if err := checkPart("prefix", part); err != nil {
			return "", err
		}
	}
	if isBlank(identity) {
		return "", badPart("identity", "is empty")
	}
	return finishKey(prefix, "identity", identity)
}

func finishKey(prefix, part string, identity any) (string, error) {
	form, err := Marshal(identity)
	if err != nil {
		return "", &KeyError{Part: part, Msg: err.Error(), Err: err}
	}
	switch string(form) {
	case "null", `""`, "{}", "[]":
		if part != "args" { // a method may have no arguments
			return "", badPart(part, "is empty")
		}
	}
	key := prefix + ":" + SumBytes(form).Hex()
	if _, _, err := ParseKey(key); err != nil {
		return "", err
	}
	return key, nil
}

// ParseKey splits an effect key at its first colon. It accepts what any
// program may have made: a kind and an identity, neither empty, of printable
// characters, in at most [MaxKeyBytes] bytes of valid UTF-8.
func ParseKey(effectKey string) (kind, identity string, err error) {
	if len(effectKey) > MaxKeyBytes {
		return "", "", badPart("key", fmt.Sprintf("has %d bytes, at most %d are allowed", len(effectKey), MaxKeyBytes))
	}
	if err := checkPrintable("key", effectKey); err != nil {
		return "", "", err
	}
	kind, identity, found := strings.Cut(effectKey, ":")
	switch {
	case effectKey == "":
		return "", "", badPart("key", "is empty")
	case !found:
		return "", "", badPart("key", "has no colon after its kind; write it as kind:identity, such as mail:confirm-7")
	case kind == "":
		return "", "", badPart("kind", "is empty")
	case strings.ContainsFunc(kind, unicode.IsSpace):
		return "", "", badPart("kind", "contains a space")
	case identity == "":
		return "", "", badPart("identity", "is empty")
	}
	return kind, identity, nil
}

// KeyKind returns the kind of an effect key: what stands before its first
// colon. It refuses what [ParseKey] refuses.
func KeyKind(effectKey string) (string, error) {
	kind, _, err := ParseKey(effectKey)
	return kind, err
}

// checkPart accepts one part between colons.
func checkPart(name, value string) error {
	if value == "" {
		return badPart(name, "is empty")
	}
	if strings.ContainsRune(value, ':') {
		return badPart(name, "contains a colon, which separates the parts of a key")
	}
	return checkPrintable(name, value)
}

func checkPrintable(name, value string) error {
	if !utf8.ValidString(value) {
		return badPart(name, "is not valid UTF-8")
	}
	if strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return badPart(name, "contains a character that is not printable")
	}
	return nil
}

func isNil(v any) bool {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return r.IsNil()
	}
	return false
}

func isBlank(v any) bool {
	if isNil(v) {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Slice, reflect.Map, reflect.String, reflect.Array:
		return r.Len() == 0
	}
	return false
}
