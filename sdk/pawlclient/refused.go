package pawlclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// maxProblemText bounds what is kept of an error page that is not the API's, in bytes.
const maxProblemText = 200

// refused reads an answer that is no success. Its error is always a [*Problem], or has one inside.
func (c *Client) refused(r call, resp *http.Response, raw []byte) try {
	if c.token != "" { // an echo of the request must not carry it into a log
		raw = bytes.ReplaceAll(raw, []byte(c.token), []byte(hiddenToken))
	}
	p := problemOf(resp, raw)
	t := try{status: resp.StatusCode, err: p, asked: time.Duration(p.RetryAfter) * time.Second}
	switch resp.StatusCode {
	case http.StatusTooManyRequests: // turned away at the door
		t.passing, t.undone = true, true
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		t.passing = true
	default:
		t.undone = resp.StatusCode < http.StatusInternalServerError
	}
	return t
}

// problemOf makes a problem of whatever the server, or something in front of it, answered.
func problemOf(resp *http.Response, raw []byte) *Problem {
	p := new(Problem)
	if err := json.Unmarshal(raw, p); err != nil || p.Title == "" && p.Detail == "" && p.Code == "" {
		p = &Problem{Detail: excerpt(resp.Header.Get("Content-Type"), raw)}
	}
	p.Status = resp.StatusCode // what counts is what was answered
	if p.Title == "" {
		if p.Title = http.StatusText(p.Status); p.Title == "" {
			p.Title = fmt.Sprintf("status %d", p.Status)
		}
	}
	if p.Code == "" {
		p.Code = codeOf(p.Status)
	}
	if p.RetryAfter <= 0 {
		p.RetryAfter = int((retryAfter(resp.Header, time.Now()) + time.Second - 1) / time.Second)
	}
	return p
}

// excerpt says what an answer is that is not the API's. Of a page of markup there is nothing to show.
func excerpt(contentType string, raw []byte) string {
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return ""
	}
	if strings.Contains(contentType, "html") || strings.HasPrefix(text, "<") {
		return "the answer is a web page and not the API's; something in front of the service may have given it"
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "�")), " ")
	if len(text) > maxProblemText {
		text = strings.ToValidUTF8(text[:maxProblemText], "") + "…"
	}
	return text
}

func codeOf(status int) string {
	codes := map[int]string{
		http.StatusBadRequest: CodeInvalid, http.StatusUnprocessableEntity: CodeInvalid, http.StatusUnauthorized: CodeUnauthenticated,
		http.StatusForbidden: CodeForbidden, http.StatusNotFound: CodeNotFound, http.StatusConflict: CodeRefused,
		http.StatusRequestEntityTooLarge: CodeTooLarge, http.StatusTooManyRequests: CodeRateLimited,
		http.StatusBadGateway: CodeUnavailable, http.StatusServiceUnavailable: CodeUnavailable, http.StatusGatewayTimeout: CodeUnavailable,
	}
	if code, ok := codes[status]; ok {
		return code
	}
	if status < http.StatusInternalServerError {
		return CodeInvalid
	}
	return CodeInternal
}
