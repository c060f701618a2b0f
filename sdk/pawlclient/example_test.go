package pawlclient_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// service stands in for a running pawl serve.
func service(replies map[string]string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply, ok := replies[r.Method+" "+r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, reply)
	}))
}

func ExampleClient_Claim() {
	s := service(map[string]string{
		"POST /v1/intents": `{"status":"new","intent":{"run_id":"0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77","effect_key":"mail:confirm-7","state":"intent"}}`,
		"GET /v1/intents/0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77/mail:confirm-7/wait": `{"state":"committed","outcome":"committed"}`,
	})
	defer s.Close()

	c, err := pawlclient.New(pawlclient.Options{URL: s.URL, Token: os.Getenv("PAWL_API_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	r, err := c.Claim(ctx, pawlclient.Claim{
		RunID:     "0b9f1f4e-3a52-4c83-9c0e-5b1d8f1c2a77", // one for each unit of work
		EffectKey: "mail:confirm-7",                       // no time, no random value
		Channel:   "mail/shop",
		Payload:   []byte(`{"to":"ada@example.org","subject":"Order 7","text":"It is on its way."}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	i, err := c.Wait(ctx, r.Intent.Key, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Status, i.Outcome)
	// Output: new committed
}

func ExampleProblem() {
	s := service(nil)
	defer s.Close()

	c, err := pawlclient.New(pawlclient.Options{URL: s.URL})
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.Channel(context.Background(), "mail/shop")
	var p *pawlclient.Problem
	if errors.As(err, &p) && p.Code == pawlclient.CodeNotFound {
		fmt.Println("there is no such channel")
	}
	// Output: there is no such channel
}
