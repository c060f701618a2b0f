package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

const schemaPrefix = "#/components/schemas/"

const describesAll = `Pawl makes every approved outside effect fire once, survive any crash, and leave evidence.

A claim is safe to repeat: the same run, key and payload again is deduplicated, and the answer says so. A problem is
application/problem+json with a stable code and the fields that are wrong. Times are RFC 3339 on the ledger's clock, durations are
seconds. Parts of a path that hold a slash are escaped: /v1/channels/mail%2Fshop.`

// tags are the chapters of the documentation, in order.
func tags() []*huma.Tag {
	return []*huma.Tag{
		{Name: "Intents", Description: "Claim effects, see what became of them, and decide what nothing could settle."},
		{Name: "Channels", Description: "What the ledger knows of each channel; pause it, or say what it does with claims."},
		{Name: "Runs", Description: "Units of work that own effects, and their leases."},
		{Name: "Receipts", Description: "Signed evidence of what ended. Whoever must not trust the server verifies with the public key alone."},
		{Name: "Ledger", Description: "Counters, engines, epochs and retention."},
		{Name: "Access", Description: "Tokens of this API, and the trail of what operators did."},
	}
}

// newAPI makes huma's side: JSON only, problems of our own, no routes of its own.
func newAPI(mux *http.ServeMux, version string) huma.API {
	format := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: decode}
	return humago.New(mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Pawl", Version: version, Description: describesAll},
			Tags:    tags(),
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {
					Type: "http", Scheme: "bearer", Description: "A token that pawl tokens create printed. Which of its scopes a route wants is said there; admin includes all.",
				}},
			},
		},
		Formats:                      map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{humaProblem},
	})
}

func problemSchema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[pawlclient.Problem](), true, "Problem")
}

func problemResponse(api huma.API) *huma.Response {
	return &huma.Response{
		Description: "A problem: see its code",
		Content:     map[string]*huma.MediaType{problemType: {Schema: problemSchema(api.OpenAPI().Components.Schemas)}},
	}
}

func statusText(status int) string {
	if status == 0 {
		status = http.StatusOK
	}
	return strconv.Itoa(status)
}

// register adds all routes, and the documentation that is made of them.
func (h *handler) register() error {
	api := newAPI(h.mux, h.Version)
	h.addIntents(api)
	h.addDecisions(api)
	h.addChannels(api)
	h.addRuns(api)
	h.addReceipts(api)
	h.addLedger(api)
	h.addAccess(api)
	doc := api.OpenAPI()
	for _, unused := range []string{"ErrorModel", "ErrorDetail"} { // huma registers its own problem, too
		delete(doc.Components.Schemas.Map(), unused)
	}
	loosen(doc)
	asJSON, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	asYAML, err := doc.YAML()
	if err != nil {
		return err
	}
	page, err := docsPage(doc, h.routes)
	if err != nil {
		return err
	}
	h.addPage("/openapi.json", "application/openapi+json", "", asJSON)
	h.addPage("/openapi.yaml", "application/openapi+yaml", "", asYAML)
	h.addPage("/docs", "text/html; charset=utf-8", docsPolicy(), page)
	return nil
}

// loosen takes out of the document what huma says of every type and is not so: no list is ever null, and what is only ever answered
// may get more members.
func loosen(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas.Map()
	asked := map[string]bool{}
	var visit func(s *huma.Schema)
	visit = func(s *huma.Schema) {
		if s == nil {
			return
		}
		if name, ok := strings.CutPrefix(s.Ref, schemaPrefix); ok && !asked[name] {
			asked[name] = true
			visit(schemas[name])
		}
		visit(s.Items)
		for _, p := range s.Properties {
			visit(p)
		}
	}
	for _, item := range doc.Paths {
		if item.Post != nil && item.Post.RequestBody != nil {
			visit(item.Post.RequestBody.Content["application/json"].Schema)
		}
	}
	for name, s := range schemas {
		for _, p := range s.Properties {
			if p.Type == huma.TypeArray {
				p.Nullable = false
			}
		}
		if !asked[name] {
			s.AdditionalProperties = nil
		}
	}
}

// addPage serves a page that everybody may see: it says nothing that the program's source does not.
func (h *handler) addPage(path, contentType, policy string, body []byte) {
	pattern := http.MethodGet + " " + path
	h.routes[pattern] = route{method: http.MethodGet, path: path, public: true}
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		if policy != "" {
			w.Header().Set("Content-Security-Policy", policy)
		}
		_, _ = w.Write(body) // nobody is left to tell
	})
}
