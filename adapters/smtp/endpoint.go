package smtp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/pawlworks/pawl/sdk"
)

// grant is the endpoint's answer.
type grant struct {
	AccessToken  string  `json:"access_token"`
	TokenType    string  `json:"token_type"`
	ExpiresIn    seconds `json:"expires_in"`
	RefreshToken string  `json:"refresh_token"`
	Error        string  `json:"error"`
	Description  string  `json:"error_description"`
}

// seconds is a number, which some endpoints write as text.
type seconds float64

// UnmarshalJSON takes both.
func (s *seconds) UnmarshalJSON(raw []byte) error {
	return json.Unmarshal([]byte(strings.Trim(string(raw), `"`)), (*float64)(s))
}

// refresh asks the endpoint.
func (t *tokens) refresh(ctx context.Context) (string, error) {
	form, err := t.form()
	if err != nil {
		return "", err
	}
	asked := t.now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.config.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", errSetting{fmt.Errorf("%stoken_url: %w", t.prefix, err)}
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	response, err := t.client.Do(request)
	if err != nil {
		var described *url.Error // its text has the whole URL
		if errors.As(err, &described) {
			err = described.Err
		}
		return "", fmt.Errorf("ask the token endpoint: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxTokenAnswer))
	if err != nil {
		return "", fmt.Errorf("read the token endpoint's answer: %w", err)
	}
	var answer grant
	readable := json.Unmarshal(body, &answer) == nil
	switch {
	case response.StatusCode == http.StatusOK && readable && answer.AccessToken != "" && printable(answer.AccessToken):
		t.keep(ctx, answer, asked)
		return answer.AccessToken, nil
	case readable && refusedGrants.MatchString(answer.Error):
		return "", errSetting{fmt.Errorf("the token endpoint refuses (%s): %s", answer.Error, cmp.Or(answer.Description, "grant access again"))}
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusNotFound:
		return "", errSetting{fmt.Errorf("the token endpoint answered %s: check token_url, client_id and client_secret_file", response.Status)}
	}
	return "", fmt.Errorf("the token endpoint answered %s without a token", response.Status)
}

// refusedGrants are the errors of RFC 6749 section 5.2, and what providers add: asking again changes nothing.
var refusedGrants = regexp.MustCompile(`^(invalid_request|invalid_client|invalid_grant|unauthorized_client|unsupported_grant_type|invalid_scope|interaction_required|consent_required|access_denied)$`)

func printable(token string) bool {
	return !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (t *tokens) form() (url.Values, error) {
	refresh, err := t.refreshToken()
	if err != nil {
		return nil, err
	}
	t.remember(refresh)
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "client_id": {t.config.ClientID}}
	if t.config.ClientSecretFile != "" {
		secret, err := secretFile(t.prefix+"client_secret_file", t.config.ClientSecretFile)
		if err != nil {
			return nil, err
		}
		t.remember(secret)
		form.Set("client_secret", secret)
	}
	if t.config.Scope != "" {
		form.Set("scope", t.config.Scope)
	}
	return form, nil
}

func (t *tokens) refreshToken() (string, error) {
	t.mu.Lock()
	renewed := t.renewed
	t.mu.Unlock()
	if renewed != "" {
		return renewed, nil
	}
	return secretFile(t.prefix+"refresh_token_file", t.config.RefreshTokenFile)
}

// keep stores what the endpoint gave.
func (t *tokens) keep(ctx context.Context, answer grant, asked time.Time) {
	t.remember(answer.AccessToken)
	t.remember(answer.RefreshToken)
	life := time.Duration(float64(answer.ExpiresIn) * float64(time.Second))
	if life <= 0 {
		life = unsaidLife
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.access, t.until = answer.AccessToken, asked.Add(life-min(earlyRenewal, life/10))
	if answer.RefreshToken == "" {
		return
	}
	// The old one may be worthless now. Until the new one is in the file, it is known here only.
	t.renewed = answer.RefreshToken
	if err := t.write(answer.RefreshToken); err != nil {
		sdk.Logger(ctx).Warn("the endpoint gave another refresh token, which cannot be written to its file: make the file and its directory writable for the adapter, or grant access again after the next start",
			"key", t.prefix+"refresh_token_file", "error", err)
		return
	}
	t.renewed = ""
}

// write replaces the refresh token's file in one step.
func (t *tokens) write(token string) (err error) {
	path := t.config.RefreshTokenFile
	if old, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(old)) == token {
		return nil
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".refresh-token-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = temp.WriteString(token + "\n")
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}
