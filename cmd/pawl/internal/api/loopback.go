package api

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

// local checks a request that carries no token while none exists: it must come from this machine, and not by way of a browser's page
// from elsewhere or a proxy, which make requests of others look like local ones.
func local(r *http.Request) *pawlclient.Problem {
	if !loopbackAddress(r.RemoteAddr) {
		return newProblem(pawlclient.CodeUnauthenticated,
			"no API token exists yet, and without one only this machine itself is served; on it, make one with: pawl tokens create NAME --scope claim")
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return newProblem(pawlclient.CodeUnauthenticated,
				"the request came through a proxy (it has the header %s), and no API token exists yet; make one with: pawl tokens create NAME --scope claim", name)
		}
	}
	if !loopbackHost(r.Host) {
		return newProblem(pawlclient.CodeForbidden, "without an API token only localhost, 127.0.0.1 and [::1] are taken as the host; make a token, or use one of these")
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return newProblem(pawlclient.CodeForbidden, "a page from elsewhere made this request; without an API token that is refused")
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(u.Host, r.Host) {
			return newProblem(pawlclient.CodeForbidden, "a page from elsewhere made this request; without an API token that is refused")
		}
	}
	return nil
}

func loopbackAddress(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
