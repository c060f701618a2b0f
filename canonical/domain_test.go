package canonical

import (
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/idna"
)

// TestPunycodeExamplesOfRFC3492 uses section 7.1, in lower case.
func TestPunycodeExamplesOfRFC3492(t *testing.T) {
	for label, want := range map[string]string{
		"ليهمابتكلموشعربي؟":      "egbpdaj6bu4bxfgehfvwxn",
		"他们为什么不说中文":              "ihqwcrb4cv8a8dqg056pqjye",
		"他們爲什麽不說中文":              "ihqwctvzc91f659drss3x8bo0yb",
		"pročprostěnemluvíčesky": "proprostnemluvesky-uyb24dma41a",
		"למההםפשוטלאמדבריםעברית": "4dbcagdahymbxekheh6e0a7fei0b",
		"यहलोगहिन्दीक्योंनहींबोलसकतेहैं":           "i1baa7eci9glrd9b2ae1bj0hfcgg6iyaf8o0a1dig0cd",
		"なぜみんな日本語を話してくれないのか":                       "n8jok5ay5dzabd5bym9f0cm5685rrjetr6pdxa",
		"세계의모든사람들이한국어를이해한다면얼마나좋을까":                 "989aomsvi5e83db1d2a355cv1e0vak1dwrv93d5xbh15a0dt30a5jpsd879ccm6fea98c",
		"почемужеонинеговорятпорусски":             "b1abfaaepdrnnbgefbadotcwatmq2g4l",
		"porquénopuedensimplementehablarenespañol": "porqunopuedensimplementehablarenespaol-fmd56a",
		"tạisaohọkhôngthểchỉnóitiếngviệt":          "tisaohkhngthchnitingvit-kjcr8268qyxafd2f1b9g",
		"3年b組金八先生":                 "3b-ww4c5e180e575a65lsy2b",
		"安室奈美恵-with-super-monkeys": "-with-super-monkeys-pc58ag80a8qai00g7n9n",
		"ひとつ屋根の下2":                 "2-u9tlzr9756bt3uc0v",
		"パフィーdeルンバ":                "de-jg4avhby1noc0d",
		"そのスピードで":                  "d9juau41awczczp",
		"-> $1.00 <-":              "-> $1.00 <--",
	} {
		if got := punycode([]rune(label)); got != want {
			t.Errorf("punycode(%s) = %s, want %s", label, got, want)
		}
	}
}

// TestEveryPlainLetterConvertsAsIDNADoes is the proof behind plainLetters: each
// character alone, in the middle, and in pairs.
func TestEveryPlainLetterConvertsAsIDNADoes(t *testing.T) {
	var all []rune
	for _, table := range []*unicode.RangeTable{plainLetters, plainCapitals} {
		for _, r16 := range table.R16 {
			for r := rune(r16.Lo); r <= rune(r16.Hi); r += rune(r16.Stride) {
				all = append(all, r)
			}
		}
	}
	g := newGenerator(3)
	for i, r := range all {
		labels := []string{string(r), "a" + string(r) + "-1"}
		if i%4 == 0 || r < 0x3000 {
			labels = append(labels, string([]rune{r, all[g.IntN(len(all))], all[g.IntN(len(all))]}), string([]rune{all[g.IntN(len(all))], r}))
		}
		for _, label := range labels {
			checkIDNA(t, label+".Example")
		}
		if t.Failed() {
			return
		}
	}
	for range 2000 { // letters that are neighbours in real names: of one script
		start := g.IntN(len(all) - 40)
		label := make([]rune, 1+g.IntN(12))
		for i := range label {
			label[i] = all[start+g.IntN(40)]
		}
		checkIDNA(t, string(label)+".example")
	}
}

func checkIDNA(t *testing.T, domain string) {
	t.Helper()
	want, err := idna.Lookup.ToASCII(domain)
	if err != nil {
		t.Errorf("IDNA refuses %q (%U), it is accepted here: %v", domain, []rune(domain), err)
		return
	}
	got, err := normalDomain(domain)
	if err != nil || got != want {
		t.Errorf("normalDomain(%q, %U) = %s, %v; IDNA says %s", domain, []rune(domain), got, err, want)
	}
	if again, err := normalDomain(got); err != nil || again != got {
		t.Errorf("the A-labels %s do not stay as they are: %s, %v", got, again, err)
	}
}

func TestDomainsWithoutTablesAreRefused(t *testing.T) {
	for _, domain := range []string{
		"u\u0308ber.example",     // u with a combining mark: another spelling of ü
		"\u212bngstrom.example",  // a sign that is a letter
		"ﬁsh.example",            // a ligature
		"ｆｕｌｌ.example",           // full width
		"İstanbul.example",       // capital that lowers to two characters
		"GROẞ.example",           // capital sharp s
		"ſ.example",              // long s
		"ا.example", "א.example", // right to left
		"ไทย.example", "हिन्दी.example", // scripts with marks
		"a\u200db.example",         // joiner
		"中。example",                // another full stop
		"\uf900.example",           // compatibility ideograph
		"\u4e00\U00020000.example", // beyond the basic plane
		"é_x.example", "éa--b.example", "aé--b.example", "-é.example", "é-.example",
		"", ".", "a..b", "example.org.", ".example", "-a.example", "a-.example", "a b.example", "a,b", "a@b", "a/b", "a:b", "a\x00b", "exam\nple",
		strings.Repeat("a", 64) + ".example", strings.Repeat("é", 60) + "aaaaaaaaaaaaa.example", strings.Repeat("a.", 127) + "a", strings.Repeat("é", 1<<20),
		"[", "[]", "[1.2.3.4", "[1.2.3.4]x", "[1.2[.3.4]", "[1 2]", "[é]",
	} {
		if got, err := normalDomain(domain); err == nil {
			t.Errorf("normalDomain(%.60q) = %.60q, want a refusal", domain, got)
		} else if len(err.Error()) > 200 {
			t.Errorf("the error of %.60q is %d bytes long", domain, len(err.Error()))
		}
	}
}

func TestDomainsKeepOneSpelling(t *testing.T) {
	for domain, want := range map[string]string{
		"Example.ORG": "example.org", "XN--MNCHEN-3YA.de": "xn--mnchen-3ya.de", "München.DE": "xn--mnchen-3ya.de", "MÜNCHEN.de": "xn--mnchen-3ya.de",
		"straße.example": "xn--strae-oqa.example", "βόλος.example": "xn--nxasmm1c.example", "localhost": "localhost", "a_b.example": "a_b.example",
		"[IPv6:2001:DB8::1]": "[ipv6:2001:db8::1]", "[192.0.2.1]": "[192.0.2.1]", "日本語.例え": "xn--wgv71a119e.xn--r8jz45g", "한국.kr": "xn--3e0b707e.kr",
		"ПРИМЕР.рф": "xn--e1afmkfd.xn--p1ai",
	} {
		if got, err := normalDomain(domain); err != nil || got != want {
			t.Errorf("normalDomain(%s) = %s, %v; want %s", domain, got, err, want)
		}
	}
}
