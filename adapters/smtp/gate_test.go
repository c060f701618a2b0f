package smtp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// recorder is a connection that keeps what is written, and hears nothing.
type recorder struct {
	net.Conn
	wrote  bytes.Buffer
	writes int
}

func (r *recorder) Write(p []byte) (int, error)        { r.writes++; return r.wrote.Write(p) }
func (r *recorder) Read([]byte) (int, error)           { return 0, timeoutError{} }
func (r *recorder) SetDeadline(time.Time) error        { return nil }
func (r *recorder) SetReadDeadline(time.Time) error    { return nil }
func (r *recorder) SetWriteDeadline(t time.Time) error { return nil }

type timeoutError struct{}

func (timeoutError) Error() string   { return "timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// dotWriter writes to the gate as the client library does.
func dotWriter(g *gate) io.WriteCloser { return textproto.NewWriter(bufio.NewWriter(g)).DotWriter() }

func TestNoFinalDotPassesTheGateBeforeBeginHoweverTheMessageIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
			".", "..", "\r\n", "\n", "\r", "x", ".\r\n", "\r\n.\r\n", "\r\n.", strings.Repeat("y", 4095), strings.Repeat("y", 4093) + "\r\n",
		}), 0, 8).Draw(t, "pieces")
		agrees := rapid.Bool().Draw(t, "agrees")
		refusal := errors.New("refused")

		var plain bytes.Buffer
		reference := textproto.NewWriter(bufio.NewWriter(&plain)).DotWriter()
		conn := &recorder{}
		g := &gate{Conn: conn, heard: []byte("354 go on\r\n")}
		var atBegin string
		if err := g.enterBody(func() error {
			atBegin = conn.wrote.String()
			if agrees {
				return nil
			}
			return refusal
		}); err != nil {
			t.Fatal(err)
		}
		w := dotWriter(g)
		for _, piece := range pieces {
			_, _ = io.WriteString(reference, piece)
			if _, err := io.WriteString(w, piece); err != nil {
				t.Fatal(err)
			}
		}
		_ = reference.Close()
		before := conn.writes
		err := w.Close()
		whole := plain.String()
		if atBegin != strings.TrimSuffix(whole, ".\r\n") {
			t.Fatalf("when Begin was called %q was on the wire, want all but the final dot of %q", atBegin, whole)
		}
		if !agrees {
			if !errors.Is(err, refusal) || conn.wrote.String() != atBegin {
				t.Fatalf("after the refusal (%v) the wire has %q", err, conn.wrote.String())
			}
			// Nothing gets out any more, a second close and a command included.
			_, _ = g.Write([]byte(".\r\n"))
			_, _ = g.Write([]byte("QUIT\r\n"))
			if conn.wrote.String() != atBegin {
				t.Fatalf("after the refusal the wire got %q", conn.wrote.String()[len(atBegin):])
			}
			return
		}
		if err != nil || conn.wrote.String() != whole || conn.writes <= before {
			t.Fatalf("the wire has %q (%v), want %q", conn.wrote.String(), err, whole)
		}
	})
}

func TestTheGateTellsOneReplyFromTwo(t *testing.T) {
	for text, want := range map[string]bool{
		"354 go\r\n": true, "354-go\r\n354 on\r\n": true, "354\r\n": true,
		"": false, "354 go": false, "354 go\r\n2": false, "354 go\r\n250 ok\r\n": false, "354-go\r\n": false, "3\r\n": false,
	} {
		if got := oneReply([]byte(text)); got != want {
			t.Errorf("oneReply(%q) is %v", text, got)
		}
	}
}

func TestAServerThatNeverStopsTalkingIsCutOff(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	go func() {
		defer server.Close()
		for {
			if _, err := io.WriteString(server, "250-more\r\n"); err != nil {
				return
			}
		}
	}()
	_, err := io.Copy(io.Discard, &gate{Conn: client})
	if !errors.Is(err, errTooMuch) {
		t.Fatalf("got %v", err)
	}
}
