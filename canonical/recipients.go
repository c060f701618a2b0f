package canonical

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var errNotAddress = errors.New("not a plain mail address")

// recipientsHash is the toHash of a mail key.
func recipientsHash(recipients []string) (string, error) {
	if len(recipients) == 0 {
		return "", badPart("recipients", "is empty")
	}
	lines := make([]string, len(recipients))
	for i, r := range recipients {
		line, err := normalAddress(r)
		if err != nil {
			return "", &KeyError{Part: fmt.Sprintf("recipients[%d]", i), Msg: err.Error(), Err: err}
		}
		lines[i] = line
	}
	slices.SortFunc(lines, func(a, b string) int { return compareUTF16([]byte(a), []byte(b)) })
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(lines), "\n")))
	return hex.EncodeToString(sum[:]), nil
}

// normalAddress returns local@domain with the domain in lower-case A-labels.
// The local part belongs to the receiving system and is not touched.
func normalAddress(address string) (string, error) {
	if address == "" {
		return "", fmt.Errorf("%w: it is empty", errNotAddress)
	}
	if !utf8.ValidString(address) {
		return "", fmt.Errorf("%w: invalid UTF-8", errNotAddress)
	}
	at := strings.LastIndexByte(address, '@')
	if at <= 0 {
		return "", fmt.Errorf("%w: write local@domain", errNotAddress)
	}
	local, domain := address[:at], address[at+1:]
	if err := checkLocal(local); err != nil {
		return "", err
	}
	domain, err := normalDomain(domain)
	if err != nil {
		return "", err
	}
	return local + "@" + domain, nil
}

// checkLocal keeps out what cannot stand before the @ and what would make two
// lists of addresses look the same: line feeds, display names, several
// addresses in one.
func checkLocal(local string) error {
	quoted := len(local) >= 2 && local[0] == '"' && local[len(local)-1] == '"'
	for _, r := range local {
		if unicode.IsControl(r) || !quoted && (unicode.IsSpace(r) || strings.ContainsRune(`<>,;:@"()[]\`, r)) {
			return fmt.Errorf("%w: character %q before the @; give the address alone", errNotAddress, r)
		}
	}
	return nil
}
