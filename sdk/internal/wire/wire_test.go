package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/pawlworks/pawl/core/channel"
	adapterv1 "github.com/pawlworks/pawl/sdk/proto/pawl/adapter/v1"
)

// cross sends a message through its bytes.
func cross[M proto.Message](t *rapid.T, m M) M {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	out := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	return out.(M)
}

func same(t *rapid.T, want, got any) {
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("crossed as\n%#v, was\n%#v", got, want)
	}
}

var (
	text     = rapid.StringOfN(rapid.Rune(), 0, 20, -1).Filter(utf8.ValidString)
	instants = rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		return time.Unix(0, rapid.Int64Range(1, math.MaxInt64).Draw(t, "ns")).UTC()
	})
	durations = rapid.Map(rapid.Int64Min(0), func(n int64) time.Duration { return time.Duration(n) })
	blobs     = rapid.Custom(func(t *rapid.T) []byte {
		if b := rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "bytes"); len(b) > 0 {
			return b
		}
		return nil
	})
	evidence = rapid.Custom(func(t *rapid.T) channel.Evidence {
		return channel.Evidence{ID: string(blobs.Draw(t, "id")), Detail: json.RawMessage(blobs.Draw(t, "detail"))}
	})
	intents = rapid.Custom(func(t *rapid.T) channel.Intent {
		return channel.Intent{
			RunID: text.Draw(t, "run"), EffectKey: text.Draw(t, "key"), Kind: text.Draw(t, "kind"), Channel: text.Draw(t, "channel"),
			Payload: blobs.Draw(t, "payload"), PayloadDigest: text.Draw(t, "digest"), Lane: text.Draw(t, "lane"), CreatedAt: instants.Draw(t, "created"),
		}
	})
	tokens = rapid.Custom(func(t *rapid.T) channel.Token {
		return channel.Token{
			Version: int(rapid.Int32Min(0).Draw(t, "version")), Data: blobs.Draw(t, "data"), Hint: blobs.Draw(t, "hint"), Life: durations.Draw(t, "life"),
			ExcludesEarlier: rapid.Bool().Draw(t, "excludes"), LaneNumber: rapid.Int64().Draw(t, "number"), MadeAt: instants.Draw(t, "made"), Dead: rapid.Bool().Draw(t, "dead"),
		}
	})
	attempts = rapid.Custom(func(t *rapid.T) channel.Attempt {
		a := channel.Attempt{
			Intent: intents.Draw(t, "intent"), Number: int(rapid.Int32Min(0).Draw(t, "number")), FirstSentAt: instants.Draw(t, "first"), LastPossibleSend: instants.Draw(t, "last"),
		}
		if n := rapid.IntRange(0, 3).Draw(t, "tokens"); n > 0 {
			a.Tokens = rapid.SliceOfN(tokens, n, n).Draw(t, "versions")
		}
		if rapid.Bool().Draw(t, "accepted") {
			e := evidence.Draw(t, "so far")
			a.Accepted = &e
		}
		return a
	})
	sheets = rapid.Custom(func(t *rapid.T) channel.Sheet {
		span := func(name string) channel.Duration { return channel.Duration(durations.Draw(t, name)) }
		number := func(name string) int { return int(rapid.Int32Min(0).Draw(t, name)) }
		return channel.Sheet{
			Kind: text.Draw(t, "kind"), Version: text.Draw(t, "version"),
			Token:     rapid.SampledFrom([]channel.TokenKind{"", channel.TokenDerived, channel.TokenAllocated}).Draw(t, "token"),
			Replay:    rapid.SampledFrom([]channel.Replay{"", channel.ReplayNever, channel.ReplayWithinLife, channel.ReplayForEver}).Draw(t, "replay"),
			Probe:     rapid.SampledFrom([]channel.Strength{"", channel.ProbeNone, channel.ProbeHeuristic, channel.ProbeExact}).Draw(t, "probe"),
			TokenLife: span("life"), NegativeProof: rapid.Bool().Draw(t, "negative"), Begin: rapid.Bool().Draw(t, "begin"), SettleTime: span("settle"), ProbeHorizon: span("horizon"),
			MayAccept: rapid.Bool().Draw(t, "accept"), FinalWithin: span("final"), AcceptedFreesLane: rapid.Bool().Draw(t, "frees"),
			LaneRequired: rapid.Bool().Draw(t, "lane"), LaneNumbers: rapid.Bool().Draw(t, "numbers"), EvidenceNamesOneEffect: rapid.Bool().Draw(t, "names"), FindsWithoutToken: rapid.Bool().Draw(t, "finds"),
			MaxPayload: number("payload"), MaxInFlight: number("flight"), RatePerMinute: number("rate"), PayloadSchema: blobs.Draw(t, "schema"),
		}
	})
)

func TestValuesCrossUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := attempts.Draw(t, "attempt")
		same(t, a, ToAttempt(cross(t, FromSend(&adapterv1.Call{}, a))))
		same(t, a, ToAttempt(cross(t, FromProbe(&adapterv1.Call{}, a))))
		r := channel.TokenRequest{Intent: intents.Draw(t, "for"), Version: int(rapid.Int32().Draw(t, "wanted")), Earlier: a.Tokens, LaneNumber: rapid.Int64().Draw(t, "lane")}
		same(t, r, ToTokenRequest(cross(t, FromTokenRequest(&adapterv1.Call{}, r))))
		s := sheets.Draw(t, "sheet")
		same(t, s, ToSheet(cross(t, FromSheet(s))))
		o := channel.Outcome{Kind: channel.OutcomeKind(rapid.IntRange(0, 4).Draw(t, "outcome")), Evidence: evidence.Draw(t, "e"), LookAgain: durations.Draw(t, "look"), Reason: text.Draw(t, "why")}
		same(t, o, ToOutcome(cross(t, FromOutcome(o))))
		f := channel.Finding{
			Kind: channel.FindingKind(rapid.IntRange(1, 5).Draw(t, "finding")), Match: channel.Match(rapid.IntRange(0, 1).Draw(t, "match")), Evidence: evidence.Draw(t, "seen"),
			TokenDead: rapid.Bool().Draw(t, "dead"), Control: rapid.Bool().Draw(t, "control"), LookAgain: durations.Draw(t, "again"), Reason: text.Draw(t, "because"),
		}
		same(t, f, ToFinding(cross(t, FromFinding(f))))
	})
}

// No number on the wire may be read as a stronger answer than the one it stands for.
func TestUnknownNumbersAreReadAsTheWeakest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32().Filter(func(n int32) bool { return n < 0 || n > 5 }).Draw(t, "number")
		if o := ToOutcome(&adapterv1.Outcome{Kind: adapterv1.OutcomeKind(n)}); o.Kind != channel.OutcomeAmbiguous {
			t.Fatalf("outcome %d is read as %s", n, o.Kind)
		}
		if f := ToFinding(&adapterv1.Finding{Kind: adapterv1.FindingKind(n), TokenDead: true}); f.Kind != channel.FindingUnknown || f.TokenDead {
			t.Fatalf("finding %d is read as %+v", n, f)
		}
		if err := ToError(&adapterv1.Failure{Kind: adapterv1.FailureKind(n)}); channel.ProvenNotSent(err) {
			t.Fatalf("failure %d is read as %v", n, err)
		}
		sheet := ToSheet(&adapterv1.Sheet{Token: adapterv1.TokenKind(n), Replay: adapterv1.Replay(n), Probe: adapterv1.Strength(n), NegativeProof: true}).Normal()
		if weakest := (channel.Sheet{}).Normal(); !reflect.DeepEqual(sheet, weakest) {
			t.Fatalf("sheet of %d is read as %+v", n, sheet)
		}
		if o := FromOutcome(channel.Outcome{Kind: channel.OutcomeKind(n)}); o.Kind != adapterv1.OutcomeKind_OUTCOME_KIND_AMBIGUOUS {
			t.Fatalf("outcome %d is written as %s", n, o.Kind)
		}
	})
}

func TestErrorsCrossWithTheirMeaning(t *testing.T) {
	plain := errors.New("connection reset")
	for _, row := range []struct {
		err  error
		want string
	}{
		{plain, "ambiguous: connection reset"},
		{channel.NotSent(plain), "not sent: connection reset"},
		{fmt.Errorf("dial: %w", channel.NotSent(plain)), "not sent: dial: not sent: connection reset"},
		{channel.Rejected("550 5.1.1", plain), "rejected (550 5.1.1): connection reset"},
		{channel.Ambiguous("final dot", plain), "ambiguous (final dot): connection reset"},
		{channel.NotSent(channel.Ambiguous("", plain)), "ambiguous: not sent: ambiguous: connection reset"},
		{channel.NotSent(nil), "not sent: not sent: no reason given"},
	} {
		got := ToError(FromError(row.err))
		if got.Error() != row.want || channel.ProvenNotSent(got) != channel.ProvenNotSent(row.err) {
			t.Errorf("%v crossed as %v, want %s", row.err, got, row.want)
		}
	}
	in := &channel.NotSentError{RetryAfter: time.Minute, Configuration: true, Err: plain}
	var out *channel.NotSentError
	if !errors.As(ToError(FromError(in)), &out) || out.RetryAfter != in.RetryAfter || out.Configuration != in.Configuration {
		t.Errorf("crossed as %+v", out)
	}
}

func TestTextIsValidAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + strings.Repeat("ü", rapid.IntRange(0, MaxText).Draw(t, "length"))
		if out := Text(in); !utf8.ValidString(out) || len(out) > MaxText || len(in) <= MaxText && utf8.ValidString(in) && out != in {
			t.Fatalf("%d bytes became %d, valid %t", len(in), len(out), utf8.ValidString(out))
		}
	})
}

func TestBeginRecordsAreReadBackAndNothingElse(t *testing.T) {
	id := NewCallID()
	if got, ok := ParseRecord(Record(id)); !ok || got != id {
		t.Errorf("got %q, %t", got, ok)
	}
	if len(Record(id)) != RecordSize || RecordSize > 512 {
		t.Errorf("a record has %d bytes: one write must be atomic", RecordSize)
	}
	for _, bad := range []string{"", "begin", strings.Repeat("x", RecordSize), "begin " + strings.ToUpper("abcdef0123456789abcdef0123456789") + "\n", "BEGIN " + id + "\n", "begin " + id + " "} {
		if _, ok := ParseRecord([]byte(bad)); ok {
			t.Errorf("%q was taken for a record", bad)
		}
	}
}
