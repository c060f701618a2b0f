package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/canonical"
)

// strict reads one JSON object of bounded size and returns its canonical form
// and its members. Duplicate names and trailing data are refused: two readers
// could take two different documents from them.
func strict(doc []byte) (canon []byte, have map[string]json.RawMessage, err error) {
	if len(doc) > MaxDocument {
		return nil, nil, fmt.Errorf("has %d bytes, more than %d", len(doc), MaxDocument)
	}
	canon, err = canonical.Transform(doc)
	if err != nil {
		return nil, nil, fmt.Errorf("is not JSON: %w", err)
	}
	if inspect(doc).members != inspect(canon).members {
		return nil, nil, errors.New("has duplicate member names")
	}
	have, err = objectMembers(canon)
	return canon, have, err
}

func objectMembers(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, errors.New("must be a JSON object")
	}
	var have map[string]json.RawMessage
	if err := json.Unmarshal(raw, &have); err != nil {
		return nil, fmt.Errorf("is not readable: %w", err)
	}
	return have, nil
}

// fields reads the members of one canonical object and keeps the first problem.
type fields struct {
	at   string // prefix for messages, e.g. "spore."
	have map[string]json.RawMessage
	err  error
}

func (f *fields) fail(name, problem string) {
	if f.err == nil {
		f.err = fmt.Errorf("%s%s: %s", f.at, name, problem)
	}
}

// only refuses members that the schema does not list.
func (f *fields) only(names ...string) {
	allowed := make(map[string]bool, len(names))
	for _, name := range names {
		allowed[name] = true
	}
	var extra []string
	for name := range f.have {
		if !allowed[name] {
			extra = append(extra, name)
		}
	}
	if len(extra) > 0 {
		// the first in order, so that the message does not vary
		f.fail(fmt.Sprintf("%.64q", slices.Min(extra)), "is not a field of this schema")
	}
}

// value returns a member that must be there, whatever its type.
func (f *fields) value(name string) json.RawMessage {
	raw, ok := f.have[name]
	if !ok {
		f.fail(name, "is missing")
		return nil
	}
	return raw
}

// text returns a required string that is not empty.
func (f *fields) text(name string) string {
	raw := f.value(name)
	if raw == nil {
		return ""
	}
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		f.fail(name, "must be a string")
		return ""
	}
	// encoding/json replaces lone surrogates; a name must not change in reading.
	if !bytes.Equal(quote(s), raw) {
		f.fail(name, "must be Unicode text")
		return ""
	}
	if s == "" {
		f.fail(name, "must not be empty")
	}
	return s
}

// optional returns a string member, or "" if it is absent.
func (f *fields) optional(name string) string {
	if _, ok := f.have[name]; !ok {
		return ""
	}
	return f.text(name)
}

// constant requires one exact string.
func (f *fields) constant(name, want string) {
	if got := f.text(name); got != "" && got != want {
		f.fail(name, fmt.Sprintf("must be %q, is %.64q", want, got))
	}
}

// object returns a member that must be an object.
func (f *fields) object(name string) fields {
	inner := fields{at: f.at + name + "."}
	raw := f.value(name)
	if raw == nil {
		return inner
	}
	have, err := objectMembers(raw)
	if err != nil {
		f.fail(name, err.Error())
	}
	inner.have = have
	return inner
}

// moment requires a time in ISO 8601 with the zone Z.
func (f *fields) moment(name string) time.Time {
	text := f.text(name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	// time.Parse takes a comma for the point; ISO 8601 readers elsewhere do not.
	if err != nil || text[len(text)-1] != 'Z' || strings.Contains(text, ",") {
		f.fail(name, "must be a UTC time in ISO 8601, e.g. 2026-01-02T03:04:05.678Z")
		return time.Time{}
	}
	return t.UTC()
}

// id requires a UUID in its usual form.
func (f *fields) id(name string) string {
	text := f.text(name)
	if text == "" {
		return ""
	}
	if parsed, err := uuid.Parse(text); err != nil || parsed.String() != text {
		f.fail(name, "must be a UUID in lower case, e.g. 0193e7a0-7b3c-7def-8000-000000000001")
	}
	return text
}

// merge takes over the first problem of an inner object.
func (f *fields) merge(inner fields) {
	if f.err == nil {
		f.err = inner.err
	}
}
