package smtp_test

import (
	"strings"
	"testing"

	"github.com/pawlworks/pawl/adapters/smtp"
	"github.com/pawlworks/pawl/conformance/world/mailbox"
	"github.com/pawlworks/pawl/core/channel"
	"github.com/pawlworks/pawl/sdk/sdktest"
)

func TestOverTheRealWireAMailIsSentFoundAndRefusedAfterTheEngineIsGone(t *testing.T) {
	m := box(t, mailbox.Options{})
	host := sdktest.New(t, smtp.Adapter(), boxConfig(t, m, m.SMTPAddr(), map[string]any{"tls": "starttls"}))
	a := attemptOf(t, host, intentOf("one", payload))
	outcome, err := host.Send(t.Context(), a)
	if class(outcome, err) != "delivered" {
		t.Fatal(err)
	}
	if finding := wantFinding(t, host, a, channel.FindingSent); finding.Evidence.ID != outcome.Evidence.ID {
		t.Fatalf("found %+v, sent %+v", finding.Evidence, outcome.Evidence)
	}
	host.CutLifeline()
	outcome, err = host.Send(t.Context(), attemptOf(t, host, intentOf("two", payload)))
	if class(outcome, err) != "not sent" || len(m.Deliveries()) != 1 {
		t.Fatalf("%v; the mailbox has %d mails", err, len(m.Deliveries()))
	}
}

func TestAMessageThatOutgrowsTheWireIsRejected(t *testing.T) {
	c := open(t, []byte(plainConfig))
	_, err := tokenOf(c, map[string]any{"to": "ann@example.test", "subject": "s", "text": strings.Repeat("=", 6<<20)})
	if class(channel.Outcome{}, err) != "rejected" || !strings.Contains(err.Error(), "attachment") {
		t.Fatal(err)
	}
}
