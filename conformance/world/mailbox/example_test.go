package mailbox_test

import (
	"fmt"
	"strings"

	"github.com/emersion/go-smtp"

	"github.com/pawlworks/pawl/conformance/world/mailbox"
)

// The gap of RFC 1047: the server has the mail, and the sender gets an error.
func ExampleStart() {
	box, err := mailbox.Start(mailbox.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer box.Close()
	box.Inject(mailbox.Fault{Phase: mailbox.PhaseAccepted, Cut: true})

	client, err := smtp.Dial(box.SMTPAddr())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	mail := "From: a@example.org\r\nTo: b@example.org\r\nSubject: Hello\r\nMessage-ID: <1@example.org>\r\n\r\nHello.\r\n"
	err = client.SendMail("a@example.org", []string{"b@example.org"}, strings.NewReader(mail))

	fmt.Println("the sender has an error:", err != nil)
	fmt.Println("mails accepted:", box.Count("1@example.org"))
	// Output:
	// the sender has an error: true
	// mails accepted: 1
}
