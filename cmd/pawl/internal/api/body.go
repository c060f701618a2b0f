package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawlworks/pawl/canonical"
	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// maxMember bounds a member of a body that is looked into before it is decoded. No member that is meant to be there is longer,
// besides a payload, which the ledger reads.
const maxMember = 64 << 10

// bodyTime is how long a body may take to come in.
const bodyTime = time.Minute

// readBody takes the request's body in, at most so many bytes of it, and refuses what two readers could take for two things: a name
// that an object has twice, a number with more digits than a double keeps. What it holds counts in b until that is given back.
func readBody(w http.ResponseWriter, r *http.Request, b *body, most int64, exact bool) *pawlclient.Problem {
	if p := checkContentType(r.Header.Get("Content-Type")); p != nil {
		return p
	}
	// huma lifts the deadline again once the body is here. A writer without deadlines needs no other one.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	b.from = http.MaxBytesReader(w, r.Body, most)
	raw, err := io.ReadAll(b)
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, errIntakeFull):
		p := newProblem(pawlclient.CodeRateLimited, "bodies of %d bytes in all are being worked on, and no more are taken; ask again in a moment", b.in.most)
		p.RetryAfter = 1
		return p
	case errors.As(err, &large):
		return newProblem(pawlclient.CodeTooLarge, "the body has more than %d bytes; send less, or in several requests", most)
	case err != nil:
		p := newProblem(pawlclient.CodeInvalid, "the body could not be read to its end")
		p.Status = http.StatusBadRequest
		return p
	case len(bytes.TrimSpace(raw)) == 0:
		p := invalid("body", "is empty; send a JSON object, {} at least")
		p.Status = http.StatusBadRequest
		return p
	}
	if exact {
		if _, err := canonical.SumExact(raw); err != nil {
			return inexact(raw, err)
		}
		// Decoding takes a name in any case for the field; the check for names that are there twice does not.
		if at := strangeName(outline(raw), "body"); at != "" {
			return invalid(clipped(at, 200), "is no field here; names are written in small letters")
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return nil
}

func checkContentType(given string) *pawlclient.Problem {
	kind, parameters, err := mime.ParseMediaType(given)
	if charset := parameters["charset"]; err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		p := newProblem(pawlclient.CodeInvalid, "the body must be JSON: send it with Content-Type: application/json")
		p.Title, p.Status = "The content type is not taken", http.StatusUnsupportedMediaType
		return p
	}
	return nil
}

// inexact names the place of what canonical refuses. It quotes no value.
func inexact(raw []byte, err error) *pawlclient.Problem {
	var at *canonical.SyntaxError
	if !errors.As(err, &at) {
		return invalid("body", "is no JSON that has one meaning")
	}
	place := "body" + strings.TrimPrefix(at.Path, "$")
	if at.Offset > 0 && at.Offset < int64(len(raw)) && raw[at.Offset] == '"' { // a name that is there twice
		name, _ := json.NewDecoder(bytes.NewReader(raw[at.Offset:])).Token()
		if text, ok := name.(string); ok && plainName(text) {
			place += "." + text
		}
	}
	p := invalid(clipped(place, 200), "%s", at.Msg)
	p.Status = http.StatusBadRequest
	return p
}

// plainName reports whether a member's name is one that a field could have.
func plainName(name string) bool {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' {
			return false
		}
	}
	return name != ""
}

// strangeName is the place of the first member that no field can have.
func strangeName(value any, at string) string {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !plainName(name) {
				return at + "." + name
			}
			if found := strangeName(v[name], at+"."+name); found != "" {
				return found
			}
		}
	case []any:
		for n, each := range v {
			if found := strangeName(each, fmt.Sprintf("%s[%d]", at, n)); found != "" {
				return found
			}
		}
	}
	return ""
}

// decode reads a body for huma: first as a value to validate, then into the type. What it refuses it names without quoting.
func decode(data []byte, into any) error {
	if value, ok := into.(*any); ok {
		*value = outline(data)
		return nil
	}
	err := json.Unmarshal(data, into)
	var field *json.UnmarshalTypeError
	switch {
	case errors.As(err, &field):
		return fmt.Errorf("%s is not of type %s", field.Field, field.Type)
	case err != nil:
		return errors.New("a value has not the form that its field wants")
	}
	return nil
}

// outline is the body as a value to validate, without what its schema does not look into: payloads, and whatever is too long to be
// anything else. A payload of many small values would take a hundred times its size here.
func outline(data []byte) any {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || members == nil {
		return whole(data)
	}
	object := make(map[string]any, len(members))
	for name, raw := range members {
		var claims []json.RawMessage
		switch {
		case name == "payload":
			object[name] = ""
		case name == "claims" && json.Unmarshal(raw, &claims) == nil && claims != nil:
			list := make([]any, 0, min(len(claims), MaxBatch+1))
			for _, c := range claims {
				if len(list) > MaxBatch { // refused for their number
					break
				}
				list = append(list, outline(c))
			}
			object[name] = list
		default:
			object[name] = whole(raw)
		}
	}
	return object
}

func whole(raw []byte) any {
	var value any
	if len(raw) > maxMember || json.Unmarshal(raw, &value) != nil {
		return ""
	}
	return value
}

// rawJSON is stored text as JSON. What is none, which only a claim by SQL can bring in, is shown as a text.
func rawJSON(stored []byte) json.RawMessage {
	if len(stored) == 0 || json.Valid(stored) {
		return stored
	}
	text, err := json.Marshal(string(stored))
	if err != nil { // a string cannot fail
		return nil
	}
	return text
}
