package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html.tmpl
var docsTemplate string

//go:embed docs.css
var docsStyle string

// docsPolicy lets the page have its own style, named by its digest, and nothing else: no script, no picture, no connection.
func docsPolicy() string {
	sum := sha256.Sum256([]byte(docsStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
}

// What the template shows.
type (
	docsView struct {
		Title, Version string
		Text           []string
		Style          template.CSS
		Chapters       []docsChapter
		Schemas        []docsSchema
	}
	docsChapter struct {
		Name, Text string
		Operations []docsOperation
	}
	docsOperation struct {
		ID, Method, Path, Summary, Text, Scopes, Curl string
		Parameters                                    []docsField
		Body                                          *docsType
		Responses                                     []docsResponse
	}
	docsField struct {
		Name, In, Text string
		Required       bool
		Type           docsType
	}
	docsType struct {
		Before, Ref, After string // such as "list of ", "Claim", ""
	}
	docsResponse struct {
		Status, Text string
		Type         *docsType
	}
	docsSchema struct {
		Name   string
		Fields []docsField
	}
)

// docsPage writes the documentation as one page of HTML that works without scripts.
func docsPage(doc *huma.OpenAPI, routes map[string]route) ([]byte, error) {
	page, err := template.New("docs").Parse(docsTemplate)
	if err != nil {
		return nil, fmt.Errorf("documentation page: %w", err)
	}
	view := docsView{
		Title: doc.Info.Title, Version: doc.Info.Version, Text: strings.Split(doc.Info.Description, "\n\n"),
		Style: template.CSS(docsStyle), //nolint:gosec // a file of this package
	}
	operations := map[string][]docsOperation{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		item := doc.Paths[path]
		for _, o := range []*huma.Operation{item.Get, item.Post, item.Delete} {
			if o != nil {
				operations[o.Tags[0]] = append(operations[o.Tags[0]], viewOperation(o, routes[o.Method+" "+path]))
			}
		}
	}
	for _, tag := range doc.Tags {
		view.Chapters = append(view.Chapters, docsChapter{tag.Name, tag.Description, operations[tag.Name]})
	}
	schemas := doc.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		view.Schemas = append(view.Schemas, docsSchema{name, viewFields(schemas[name])})
	}
	var b bytes.Buffer
	if err := page.Execute(&b, view); err != nil {
		return nil, fmt.Errorf("documentation page: %w", err)
	}
	return b.Bytes(), nil
}

func viewOperation(o *huma.Operation, r route) docsOperation {
	view := docsOperation{ID: o.OperationID, Method: o.Method, Path: o.Path, Summary: o.Summary, Text: o.Description, Scopes: "any token"}
	if len(r.scopes) > 0 {
		view.Scopes = strings.Join(withAdmin(r.scopes), " or ")
	}
	for _, p := range o.Parameters {
		view.Parameters = append(view.Parameters, docsField{p.Name, p.In, p.Schema.Description, p.Required, viewType(p.Schema)})
	}
	if o.RequestBody != nil {
		t := viewType(o.RequestBody.Content["application/json"].Schema)
		view.Body = &t
	}
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		response := docsResponse{Status: status, Text: o.Responses[status].Description}
		for _, content := range o.Responses[status].Content {
			t := viewType(content.Schema)
			response.Type = &t
		}
		view.Responses = append(view.Responses, response)
	}
	view.Curl = curl(o)
	return view
}

// curl is a call of the operation to start from.
func curl(o *huma.Operation) string {
	var b strings.Builder
	b.WriteString("curl -H \"Authorization: Bearer $PAWL_TOKEN\"")
	if o.Method != "GET" && o.RequestBody == nil {
		b.WriteString(" -X " + o.Method)
	}
	if o.RequestBody != nil {
		b.WriteString(" -H 'Content-Type: application/json' -d @body.json")
	}
	path := strings.NewReplacer("{", "$", "}", "").Replace(o.Path)
	b.WriteString(" \"$PAWL_URL" + path + "\"")
	return b.String()
}

func viewFields(s *huma.Schema) []docsField {
	var fields []docsField
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		fields = append(fields, docsField{Name: name, Text: p.Description, Required: slices.Contains(s.Required, name), Type: viewType(p)})
	}
	sort.SliceStable(fields, func(i, j int) bool { return fields[i].Required && !fields[j].Required })
	return fields
}

func viewType(s *huma.Schema) docsType {
	switch {
	case s == nil:
		return docsType{Before: "anything"}
	case s.Ref != "":
		return docsType{Ref: s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]}
	case s.Type == huma.TypeArray:
		t := viewType(s.Items)
		t.Before = "list of " + t.Before
		return t
	case s.Type == "":
		return docsType{Before: "any JSON"}
	}
	text := s.Type
	if s.Format != "" && s.Format != "double" && s.Format != "int64" {
		text += " (" + s.Format + ")"
	}
	if len(s.Enum) > 0 {
		var words []string
		for _, e := range s.Enum {
			words = append(words, fmt.Sprint(e))
		}
		text += ": " + strings.Join(words, ", ")
	}
	return docsType{Before: text}
}
