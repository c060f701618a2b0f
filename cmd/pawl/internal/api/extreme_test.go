package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

func TestTimesThatCannotBeShownAgainAreRefused(t *testing.T) {
	backends(t, func(t *testing.T, w *world) {
		secret := w.token(t, pawlclient.ScopeAdmin)
		run := uuid.NewString()
		claim := func(field, at string) string {
			return `{"run_id":"` + run + `","effect_key":"mail:` + field + at[len(at)-6:] + `","channel":"mail/shop","payload":{"to":"a@example.org","subject":"s"},"` + field + `":"` + at + `"}`
		}
		for _, at := range []string{"9999-12-31T23:59:59-10:00", "9999-12-31T23:59:59.9999999Z", "1970-01-01T00:00:00+10:00", "0001-01-01T00:00:00+10:00"} {
			for _, field := range []string{"due_at", "expires_at"} {
				r := w.call(t, secret, http.MethodPost, "/v1/intents", claim(field, at))
				if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, "body."+field) {
					t.Errorf("%s %s: %d %s", field, at, r.status, r.body)
				}
			}
			r := w.call(t, secret, http.MethodPost, "/v1/tokens", `{"name":"late","scopes":["read"],"expires_at":"`+at+`"}`)
			if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, "body.expires_at") {
				t.Errorf("a token until %s: %d %s", at, r.status, r.body)
			}
		}
		for _, path := range []string{"/v1/intents", "/v1/tokens"} {
			if r := w.call(t, secret, http.MethodGet, path, nil); r.status != http.StatusOK {
				t.Errorf("%s after it: %d %s", path, r.status, r.body)
			}
		}
	})
}
