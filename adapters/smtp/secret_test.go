package smtp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestAPrintedConfigurationShowsNoPassword(t *testing.T) {
	raw := `{"host":"mail.example.test","from":"a@b.example","username":"u","password":"pass-word-1",
		"imap":{"host":"mail.example.test","username":"u","password":"pass-word-2"}}`
	prepared, err := parseConfig(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	var fresh Config
	if err := json.Unmarshal([]byte(raw), &fresh); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	for _, c := range []*Config{prepared, &fresh} {
		fmt.Fprintf(&log, "%v %+v %#v %s %v %+v %#v", c, *c, *c, c, c.IMAP, *c.IMAP, *c.IMAP)
		logger.Info("channel", "config", *c, "imap", *c.IMAP)
	}
	if text := log.String(); strings.Contains(text, "pass-word") || !strings.Contains(text, "mail.example.test") {
		t.Fatalf("printed: %s", text)
	}
}
