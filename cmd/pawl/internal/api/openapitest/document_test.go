package openapitest

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/pawlworks/pawl/cmd/pawl/internal/api"
	"github.com/pawlworks/pawl/ledger/sqlite"
)

func TestTheDocumentIsValidOpenAPI(t *testing.T) {
	o := sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db")}
	if _, err := sqlite.Migrate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	l, err := sqlite.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was written
	s, err := api.NewService(api.ServiceOptions{Ledger: l})
	if err != nil {
		t.Fatal(err)
	}
	h, err := api.NewHandler(api.HandlerOptions{Service: s, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/openapi.json", "/openapi.yaml"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 {
			t.Fatalf("%s: status %d", path, w.Code)
		}
		check(t, path, w.Body.Bytes())
	}
}

func check(t *testing.T, path string, text []byte) {
	doc, err := libopenapi.NewDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := doc.GetVersion(); !strings.HasPrefix(got, "3.1") {
		t.Errorf("%s: version %s", path, got)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, faults := v.ValidateDocument(); !ok {
		for _, f := range faults {
			t.Errorf("%s: %s: %s", path, f.Message, f.Reason)
			for _, s := range f.SchemaValidationErrors {
				t.Errorf("  %s: %s", s.KeywordLocation, s.Reason)
			}
		}
	}
}
