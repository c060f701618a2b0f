package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlworks/pawl/ledger"
)

func TestAClaimIsRefusedForATimeThatNoBackendShowsAgain(t *testing.T) {
	west, east := time.FixedZone("west", -10*3600), time.FixedZone("east", 10*3600)
	for _, tt := range []struct {
		name string
		at   time.Time
		keep bool
	}{
		{"none", time.Time{}, true},
		{"the first", time.Unix(0, 0), true},
		{"the last", time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC), true},
		{"before the first", time.Date(1970, 1, 1, 0, 0, 0, 0, east), false},
		{"after the last in UTC", time.Date(9999, 12, 31, 23, 59, 59, 0, west), false},
		{"after the last when it is rounded", time.Date(9999, 12, 31, 23, 59, 59, 999_999_900, time.UTC), false},
		{"far beyond", time.Date(100_000, 1, 1, 0, 0, 0, 0, time.UTC), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for field, set := range map[string]func(c *ledger.Claim){
				"due_at":     func(c *ledger.Claim) { c.DueAt = tt.at },
				"expires_at": func(c *ledger.Claim) { c.ExpiresAt = tt.at },
				"approval":   func(c *ledger.Claim) { c.Approval = &ledger.Approval{By: "a person", Reference: "r", Until: tt.at} },
			} {
				c := ledger.Claim{RunID: "0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77", EffectKey: "mail:1", Channel: "mail/shop", Payload: []byte(`{}`)}
				set(&c)
				_, err := ledger.Prepare(c)
				var wrong *ledger.InvalidError
				if refused := errors.As(err, &wrong) && wrong.Field == field; refused == tt.keep || tt.keep && err != nil {
					t.Errorf("%s: %v", field, err)
				}
			}
		})
	}
}
