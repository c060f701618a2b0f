package smtp_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawlworks/pawl/adapters/smtp"
)

func TestConfigurationFaultsAreNamedWithTheirFix(t *testing.T) {
	const base = `"host":"mail.example.test","from":"shop@example.test"`
	for config, wants := range map[string][]string{
		`{}`:                                  {"host is missing", "from"},
		`{` + base + `,"hots":"x"}`:           {`"hots"`},
		`{` + base + `,"imap":{"hots":"x"}}`:  {`"hots"`},
		`{` + base + `,"imap":{"host":"x"}}`:  {"imap.username"},
		`{` + base + `,"tls":"maybe"}`:        {"tls", "starttls, implicit or none"},
		`{` + base + `,"port":70000}`:         {"port"},
		`{` + base + `,"username":"u"}`:       {"password is missing"},
		`{` + base + `,"password":"geheim1"}`: {"username is missing"},
		`{` + base + `,"username":"u","password":"geheim1","password_env":"X"}`:                                                       {"exclude each other"},
		`{` + base + `,"username":"u","password":"geheim1","tls":"none"}`:                                                             {"allow_plaintext_password"},
		`{` + base + `,"username":"u","password_file":"/nonexistent"}`:                                                                {"password_file", "/nonexistent"},
		`{` + base + `,"username":"u","password_env":"PAWL_TEST_UNSET"}`:                                                              {"password_env", "PAWL_TEST_UNSET"},
		`{` + base + `,"username":"u","password":"geheim1","oauth2":{"token_file":"/f"}}`:                                             {"oauth2 and a password exclude each other"},
		`{` + base + `,"oauth2":{"token_file":"/f"}}`:                                                                                 {"username is missing"},
		`{` + base + `,"username":"u","oauth2":{"token_file":"/f"},"tls":"none"}`:                                                     {"allow_plaintext_password"},
		`{` + base + `,"username":"u","oauth2":{}}`:                                                                                   {"oauth2.token_file is missing"},
		`{` + base + `,"username":"u","oauth2":{"token_file":"/f","client_id":"c"}}`:                                                  {"exclude each other"},
		`{` + base + `,"username":"u","oauth2":{"scope":"mail"}}`:                                                                     {"oauth2.token_url is missing", "oauth2.client_id is missing", "oauth2.refresh_token_file is missing"},
		`{` + base + `,"username":"u","oauth2":{"token_url":"http://login.example.test/","client_id":"c","refresh_token_file":"/f"}}`: {"oauth2.token_url must be an https"},
		`{` + base + `,"imap":{"host":"x","username":"u","oauth2":{}}}`:                                                               {"imap.oauth2.token_file is missing"},
		`{` + base + `,"tls_ca_file":"/nonexistent"}`:                                                                                 {"tls_ca_file"},
		`{` + base + `,"reply_timeout":"-1s"}`:                                                                                        {"reply_timeout"},
		`{` + base + `,"reply_timeout":"soon"}`:                                                                                       {"soon", "30s"},
		`{` + base + `,"headers":["Bcc"]}`:                                                                                            {"headers", "Bcc"},
		`{` + base + `,"headers":["X-SMTPAPI"]}`:                                                                                      {"headers", "X-SMTPAPI"[:2]},
		`{` + base + `,"senders":["a@b.example, c@d.example"]}`:                                                                       {"senders[0]"},
		`{` + base + `,"domain":"a b"}`:                                                                                               {"domain"},
		`{` + base + `,"max_in_flight":-1}`:                                                                                           {"max_in_flight"},
	} {
		_, err := smtp.New(t.Context(), json.RawMessage(config))
		if err == nil {
			t.Errorf("%s: accepted", config)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not speak of %q", config, err, want)
			}
		}
		if strings.Contains(err.Error(), "geheim1") {
			t.Errorf("%s: the error shows the password: %v", config, err)
		}
	}
}

func TestAPasswordComesFromAFileOrTheEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("pass-word-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PAWL_TEST_PASSWORD", "pass-word-1")
	for key, value := range map[string]string{"password_file": path, "password_env": "PAWL_TEST_PASSWORD"} {
		server := startScripted(t, "", "")
		server.offers = []string{"AUTH PLAIN"}
		c := open(t, server.config(t, map[string]any{"password": nil, key: value}))
		if outcome, err := c.Send(t.Context(), attemptOf(t, c, intentOf("one", payload))); class(outcome, err) != "delivered" {
			t.Fatal(err)
		}
		if lines := strings.Join(server.commands(), "\n"); !strings.Contains(lines, "AUTH PLAIN AHVzZXIAcGFzcy13b3JkLTE=") {
			t.Fatalf("%s: %s", key, lines)
		}
	}
}

func TestThePayloadSchemaAgreesWithTheAdapter(t *testing.T) {
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(string(smtp.Sheet().PayloadSchema)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("mail.json", parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("mail.json")
	if err != nil {
		t.Fatal(err)
	}
	for text, valid := range map[string]bool{
		payload: true,
		`{"to":"a@b.example","subject":"","text":"","html":"<p>","reply_to":"c@d.example","from":"e@f.example","headers":{"List-Id":"<x>"},"attachments":[{"name":"a","content_type":"a/b","content":"aGk="}]}`: true,
		`{"to":["a@b.example"],"subject":"s","text":"t"}`:                false,
		`{"to":"a@b.example","subject":"s"}`:                             false,
		`{"to":"a@b.example","subject":"s","text":"t","cc":"c@d.e"}`:     false,
		`{"to":"a@b.example","subject":"s","text":"t","headers":{"":1}}`: false,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}
