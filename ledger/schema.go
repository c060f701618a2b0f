package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// maxSchemas bounds the cache of compiled schemas.
const maxSchemas = 64

// Schemas compiles payload schemas once. The zero value is ready; it is safe for concurrent use.
type Schemas struct {
	mu       sync.Mutex
	compiled map[[sha256.Size]byte]*jsonschema.Schema
}

// Compile checks that a schema is one: JSON Schema 2020-12, without references to elsewhere.
func (s *Schemas) Compile(schema json.RawMessage) error {
	_, err := s.get(schema)
	return err
}

// Check validates a payload. The error is an [*InvalidError] that names the member of the payload.
func (s *Schemas) Check(schema json.RawMessage, payload []byte) error {
	if len(schema) == 0 {
		return nil
	}
	compiled, err := s.get(schema)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return invalid("payload", "%v", err)
	}
	var failed *jsonschema.ValidationError
	if err := compiled.Validate(value); errors.As(err, &failed) {
		return schemaFault(failed)
	} else if err != nil {
		return invalid("payload", "%v", err)
	}
	return nil
}

func (s *Schemas) get(schema json.RawMessage) (*jsonschema.Schema, error) {
	sum := sha256.Sum256(schema)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.compiled[sum]; ok {
		return c, nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, invalid("payload_schema", "is not JSON: %v", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	const at = "pawl:payload-schema"
	if err := compiler.AddResource(at, doc); err != nil {
		return nil, invalid("payload_schema", "%v", err)
	}
	compiled, err := compiler.Compile(at)
	if err != nil {
		return nil, invalid("payload_schema", "is not a JSON Schema 2020-12: %s", oneLine(err))
	}
	if s.compiled == nil || len(s.compiled) >= maxSchemas {
		s.compiled = map[[sha256.Size]byte]*jsonschema.Schema{}
	}
	s.compiled[sum] = compiled
	return compiled, nil
}

func oneLine(err error) string {
	return bounded(strings.Join(strings.Fields(err.Error()), " "))
}

// noLoader keeps a schema from reading files or the network.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("a payload schema may not refer to %s", url)
}

// schemaFault names the deepest member that fails, in one line.
func schemaFault(err *jsonschema.ValidationError) error {
	for len(err.Causes) > 0 {
		err = err.Causes[0]
	}
	field := "payload"
	if len(err.InstanceLocation) > 0 {
		field += "." + strings.Join(err.InstanceLocation, ".")
	}
	return invalid(bounded(field), "%s", bounded(err.ErrorKind.LocalizedString(message.NewPrinter(language.English))))
}
