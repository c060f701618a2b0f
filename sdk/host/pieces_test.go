package host

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawlworks/pawl/sdk/internal/wire"
)

func TestMissingRecordCountsOnlyAtTheIntactEndOfThePipe(t *testing.T) {
	mine, other := wire.NewCallID(), wire.NewCallID()
	for _, row := range []struct {
		name  string
		input io.Reader
		never bool
	}{
		{"empty", strings.NewReader(""), true},
		{"another call's record", bytes.NewReader(wire.Record(other)), true},
		{"own record", bytes.NewReader(wire.Record(mine)), false},
		{"own record after another's", bytes.NewReader(append(wire.Record(other), wire.Record(mine)...)), false},
		{"rubbish", strings.NewReader(strings.Repeat("x", wire.RecordSize)), false},
		{"half a record", bytes.NewReader(wire.Record(other)[:10]), false},
		{"read error before the end", io.MultiReader(bytes.NewReader(wire.Record(other)), broken{}), false},
	} {
		b := newBeginLog()
		forget := b.expect(mine)
		b.expect(other)
		if b.never(mine) {
			t.Errorf("%s: concluded before the end of the pipe", row.name)
		}
		b.read(row.input)
		if b.never(mine) != row.never {
			t.Errorf("%s: never=%t, want %t", row.name, b.never(mine), row.never)
		}
		if forget(); b.never(mine) {
			t.Errorf("%s: concluded for a call that is not under way", row.name)
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestRecordsOfUnknownCallsTakeNoMemory(t *testing.T) {
	b := newBeginLog()
	var many bytes.Buffer
	for range 1000 {
		many.Write(wire.Record(wire.NewCallID()))
	}
	b.read(&many)
	if len(b.expected) != 0 || b.stray != 1000 || b.garbled {
		t.Errorf("kept %d, stray %d, garbled %t", len(b.expected), b.stray, b.garbled)
	}
}

func TestRedactorTakesOutWhatLooksSecret(t *testing.T) {
	redact := newRedactor([]byte(`{
		"host": "mail.example.org", "password": "s3cr3t\"quote", "nested": {"api_key": ["first-key", "second-key"]},
		"private_keys": {"a": {"pem": "BEGIN"}}, "url": "https://user:urlpass@example.org/", "short_token": "abc", "port": 25
	}`))
	for in, want := range map[string]string{
		`login s3cr3t"quote`:         "login [redacted]",
		`{"x":"s3cr3t\"quote"}`:      `{"x":"[redacted]"}`,
		"first-key second-key":       "[redacted] [redacted]",
		"pem BEGIN":                  "pem [redacted]",
		"https://user:urlpass@e.org": "https://user:[redacted]@e.org",
		"mail.example.org abc 25":    "mail.example.org abc 25",
	} {
		if got := redact(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := newRedactor([]byte("not json"))("as it is"); got != "as it is" {
		t.Errorf("got %q", got)
	}
}

func TestHandshakeIsFoundOnceWhateverSurroundsIt(t *testing.T) {
	const line = "1|1|unix|/tmp/s|grpc|CERT"
	for _, row := range []struct {
		name, input, passed string
		version             int64
	}{
		{"alone", line + "\n", line + "\n", 1},
		{"after lines", "hello\n1|2|3\n" + line + "\n", line + "\n", 1},
		{"on the line of something else", "hello" + line + "\n", line + "\n", 1},
		{"after a line that never ends", strings.Repeat("x", 1<<20) + "\n" + line + "\n", line + "\n", 1},
		{"twice", line + "\n" + line + "\n", line + "\n", 1},
		{"another version", "1|9|tcp|127.0.0.1:1|grpc|\n", "1|9|tcp|127.0.0.1:1|grpc|\n", 9},
		{"another transport", "1|1|unix|/tmp/s|netrpc|\n", "", 0},
		{"never", "nothing\n", "", 0},
	} {
		var passed bytes.Buffer
		var f stdoutFilter
		f.run(strings.NewReader(row.input), &passed, newOutputLog(slog.New(slog.DiscardHandler), func(s string) string { return s }))
		if passed.String() != row.passed || f.version.Load() != row.version {
			t.Errorf("%s: passed %q, version %d", row.name, passed.String(), f.version.Load())
		}
	}
}

func TestOutputIsLoggedBoundedAndWithItsLevel(t *testing.T) {
	var b bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := newOutputLog(logger, strings.NewReplacer("hunter2", "[redacted]").Replace)
	readLines(strings.NewReader(`{"time":"x","level":"WARN","msg":"slow hunter2","call_id":"c1","with":{"p":"hunter2"}}
{"@level":"error","@message":"from hclog"}
panic: oh no
plain text
`), o.stderr)
	for _, want := range []string{
		`"level":"WARN","msg":"slow [redacted]","call_id":"c1"`, `"level":"ERROR","msg":"from hclog"`,
		`"level":"ERROR","msg":"adapter wrote to standard error","line":"panic: oh no"`, `"line":"plain text"`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s is missing in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "hunter2") {
		t.Error("a secret was logged")
	}
	b.Reset()
	readLines(strings.NewReader(strings.Repeat("flood\n", 100_000)), o.stdout)
	if n := strings.Count(b.String(), "\n"); n > 2*lineBurst {
		t.Errorf("%d lines were logged", n)
	}
	if last := o.last(); len(last) != tailLines {
		t.Errorf("%d lines are kept", len(last))
	}
}
