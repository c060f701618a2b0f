package canonical_test

import (
	"fmt"

	"github.com/pawlworks/pawl/canonical"
)

func ExampleTransform() {
	form, err := canonical.Transform([]byte(`{ "b": [1.0, 1e21, -0], "a": "\u00e9\u003c", "10": 3, "2": 4 }`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(form))
	// Output: {"10":3,"2":4,"a":"é<","b":[1,1e+21,0]}
}

func ExampleTransform_refused() {
	_, err := canonical.Transform([]byte(`{"lines":[{"amount":1},{"amount":1e999}]}`))
	fmt.Println(err)
	// Output: canonical json: number is too large for a double at $.lines[1].amount (byte 33)
}

func ExampleMarshal() {
	type mail struct {
		To      []string `json:"to"`
		Subject string   `json:"subject"`
		ReplyTo *string  `json:"replyTo"` // nil: left out
		Size    int64    `json:"size,omitempty"`
	}
	form, err := canonical.Marshal(mail{To: []string{"ann@example.org"}, Subject: "Q&A"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(form))
	// Output: {"subject":"Q&A","to":["ann@example.org"]}
}

func ExampleSum() {
	d, err := canonical.Sum([]byte(`{"2":4,"10":3,"B":1,"a":2,"_z":5}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Stamped())
	// Output: sha256:dreamnet-sorted-json:v0:e9e4735773c21ac5ecfa6ab3bd29a28038e24c68980c0e4cd693a4995f60dc2e
}

func ExampleParseDigest() {
	_, err := canonical.ParseDigest("sha256:jcs:v1:e9e4735773c21ac5ecfa6ab3bd29a28038e24c68980c0e4cd693a4995f60dc2e")
	fmt.Println(err)
	// Output: parse digest: algorithm "sha256:jcs:v1" is not sha256:dreamnet-sorted-json:v0
}

func ExampleMailKey() {
	one, err := canonical.MailKey([]string{"ann@MÜNCHEN.example", "bob@example.org"}, "Invoice 7", "Dear all, …")
	if err != nil {
		fmt.Println(err)
		return
	}
	two, err := canonical.MailKey([]string{"bob@Example.ORG", "ann@xn--mnchen-3ya.example"}, "Invoice 7", "Dear all, …")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(one == two)
	// Output: true
}

func ExampleKey() {
	_, err := canonical.Key("webhook", map[string]any{})
	fmt.Println(err)
	key, err := canonical.Key("webhook", map[string]any{"order": 7, "step": "paid"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(key)
	// Output:
	// effect key: identity: is empty
	// webhook:41af1b319cbb4fe9157575774c18cd030d19005914a45b547ab5d66fcfd3d2ef
}

func ExampleResourceRunID() {
	id, err := canonical.DeterministicResourceID("invoice", "2024/7")
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := canonical.ResourceRunID(id)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(id)
	fmt.Println(run)
	// Output:
	// heart:resource:4ce251d0d0ba82a144aba0dd44c1597484ebc70b71c6b7761046a749787e32bf
	// 4ce251d0-d0ba-82a1-84ab-a0dd44c15974
}
