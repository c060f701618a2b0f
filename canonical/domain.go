package canonical

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxLabelBytes  = 63  // RFC 1035
	maxDomainBytes = 253 // RFC 1035, without the final dot
)

// errDomain is the cause of every refused domain.
var errDomain = errors.New("domain")

// plainLetters are the characters beyond ASCII that a label may have here.
// Each is a letter that IDNA 2008 accepts, that has no other spelling under
// NFKC, that does not combine with a neighbour, and that is written from left
// to right, so that the Punycode of the lower-case label is its A-label
// without any Unicode table. A test compares every one with a full IDNA
// implementation.
var plainLetters = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00DF, Hi: 0x00F6, Stride: 1}, // Latin-1
		{Lo: 0x00F8, Hi: 0x00FF, Stride: 1},
		{Lo: 0x0101, Hi: 0x012F, Stride: 2}, // Latin Extended-A
		{Lo: 0x0131, Hi: 0x0131, Stride: 1},
		{Lo: 0x0135, Hi: 0x0137, Stride: 2},
		{Lo: 0x0138, Hi: 0x0138, Stride: 1},
		{Lo: 0x013A, Hi: 0x013E, Stride: 2},
		{Lo: 0x0142, Hi: 0x0148, Stride: 2},
		{Lo: 0x014B, Hi: 0x0177, Stride: 2},
		{Lo: 0x017A, Hi: 0x017E, Stride: 2},
		{Lo: 0x0219, Hi: 0x021B, Stride: 2}, // Romanian
		{Lo: 0x0390, Hi: 0x0390, Stride: 1}, // Greek
		{Lo: 0x03AC, Hi: 0x03CE, Stride: 1},
		{Lo: 0x0430, Hi: 0x045F, Stride: 1}, // Cyrillic
		{Lo: 0x0491, Hi: 0x04BF, Stride: 2},
		{Lo: 0x0561, Hi: 0x0586, Stride: 1}, // Armenian
		{Lo: 0x10D0, Hi: 0x10F0, Stride: 1}, // Georgian
		{Lo: 0x1EA1, Hi: 0x1EF9, Stride: 2}, // Vietnamese
		{Lo: 0x3005, Hi: 0x3005, Stride: 1}, // ideographic repetition mark
		{Lo: 0x3041, Hi: 0x3096, Stride: 1}, // Hiragana
		{Lo: 0x30A1, Hi: 0x30FA, Stride: 1}, // Katakana
		{Lo: 0x30FC, Hi: 0x30FC, Stride: 1},
		{Lo: 0x3400, Hi: 0x4DBF, Stride: 1}, // CJK ideographs
		{Lo: 0x4E00, Hi: 0x9FFF, Stride: 1},
		{Lo: 0xAC00, Hi: 0xD7A3, Stride: 1}, // Hangul syllables
	},
	LatinOffset: 2,
}

// plainCapitals are the capitals whose lower case is their only mapping. Some
// that are not here (İ, ẞ) map to two letters.
var plainCapitals = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00C0, Hi: 0x00D6, Stride: 1},
		{Lo: 0x00D8, Hi: 0x00DE, Stride: 1},
		{Lo: 0x0100, Hi: 0x012E, Stride: 2},
		{Lo: 0x0134, Hi: 0x0136, Stride: 2},
		{Lo: 0x0139, Hi: 0x013D, Stride: 2},
		{Lo: 0x0141, Hi: 0x0147, Stride: 2},
		{Lo: 0x014A, Hi: 0x0176, Stride: 2},
		{Lo: 0x0178, Hi: 0x0178, Stride: 1},
		{Lo: 0x0179, Hi: 0x017D, Stride: 2},
		{Lo: 0x0218, Hi: 0x021A, Stride: 2},
		{Lo: 0x0386, Hi: 0x0386, Stride: 1},
		{Lo: 0x0388, Hi: 0x038A, Stride: 1},
		{Lo: 0x038C, Hi: 0x038E, Stride: 2},
		{Lo: 0x038F, Hi: 0x038F, Stride: 1},
		{Lo: 0x0391, Hi: 0x03A1, Stride: 1},
		{Lo: 0x03A3, Hi: 0x03AB, Stride: 1},
		{Lo: 0x0400, Hi: 0x042F, Stride: 1},
		{Lo: 0x0490, Hi: 0x04BE, Stride: 2},
		{Lo: 0x0531, Hi: 0x0556, Stride: 1},
		{Lo: 0x1EA0, Hi: 0x1EF8, Stride: 2},
	},
	LatinOffset: 2,
}

// normalDomain returns a mail domain in lower-case A-labels, or an address
// literal in lower case.
func normalDomain(domain string) (string, error) {
	if domain == "" {
		return "", fmt.Errorf("%w: nothing stands after the @", errDomain)
	}
	if domain[0] == '[' {
		return normalLiteral(domain)
	}
	if len(domain) > 4*maxDomainBytes { // no A-label is shorter than a quarter of its UTF-8
		return "", fmt.Errorf("%w: %d bytes, at most %d are allowed", errDomain, len(domain), maxDomainBytes)
	}
	labels := strings.Split(domain, ".")
	for i, label := range labels {
		normal, err := normalLabel(label)
		if err != nil {
			return "", fmt.Errorf("%w: label %d: %w", errDomain, i+1, err)
		}
		labels[i] = normal
	}
	normal := strings.Join(labels, ".")
	if len(normal) > maxDomainBytes {
		return "", fmt.Errorf("%w: %d bytes, at most %d are allowed", errDomain, len(normal), maxDomainBytes)
	}
	return normal, nil
}

// normalLiteral accepts an address literal such as [192.0.2.1].
func normalLiteral(domain string) (string, error) {
	for i, c := range domain[1:] {
		last := i == len(domain)-2
		if c <= ' ' || c > '~' || c == '[' || (c == ']') != last {
			return "", fmt.Errorf("%w: not an address literal", errDomain)
		}
	}
	if len(domain) < 3 {
		return "", fmt.Errorf("%w: not an address literal", errDomain)
	}
	return strings.ToLower(domain), nil
}

func normalLabel(label string) (string, error) {
	ascii := true
	lower := make([]rune, 0, len(label))
	for _, r := range label {
		switch {
		case 'A' <= r && r <= 'Z':
			r += 'a' - 'A'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-', r == '_':
		case unicode.Is(plainCapitals, r):
			ascii = false
			r = unicode.ToLower(r)
		case unicode.Is(plainLetters, r):
			ascii = false
		case r < utf8.RuneSelf:
			return "", fmt.Errorf("character %q is not allowed", r)
		default:
			return "", fmt.Errorf("character %U cannot be converted here; write the label as its A-label (xn--…)", r)
		}
		lower = append(lower, r)
	}
	text := string(lower)
	switch {
	case text == "":
		return "", errors.New("is empty")
	case text[0] == '-' || text[len(text)-1] == '-':
		return "", errors.New("starts or ends with a hyphen")
	case !ascii && strings.ContainsRune(text, '_'):
		return "", errors.New("has an underscore beside letters that are not ASCII")
	case !ascii && len(lower) >= 4 && lower[2] == '-' && lower[3] == '-':
		return "", errors.New("has two hyphens where an A-label has them")
	case !ascii:
		text = "xn--" + punycode(lower)
	}
	if len(text) > maxLabelBytes {
		return "", fmt.Errorf("is %d bytes long, at most %d are allowed", len(text), maxLabelBytes)
	}
	return text, nil
}
