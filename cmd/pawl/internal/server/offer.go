package server

import (
	"context"
	"net/http"

	"github.com/pawlworks/pawl/ledger"
)

// takeAddresses listens, so that an address that cannot be had is an error before anything is started. Nobody is answered before Run.
func (s *Server) takeAddresses(ctx context.Context) error {
	c := s.configuration()
	if err := checkExposure(ctx, c, s.Ledger); err != nil {
		return err
	}
	w, err := listen(ctx, "api.listen", c.API.Listen, s.logger)
	if err != nil {
		return err
	}
	w.drain = c.API.Drain
	s.webs = append(s.webs, w)
	if c.API.TLS.On() {
		if s.cert, err = loadCertificate(c.API.TLS, s.logger); err != nil {
			return err
		}
		w.secure, w.server.TLSConfig = true, s.cert.config()
	}
	if c.Metrics.Listen == "" {
		return nil
	}
	if w, err = listen(ctx, "metrics.listen", c.Metrics.Listen, s.logger); err != nil {
		return err
	}
	w.drain = c.API.Drain
	s.webs = append(s.webs, w)
	return nil
}

// URL is where the API is, such as http://127.0.0.1:7240; empty if it is not offered.
func (s *Server) URL() string {
	if len(s.webs) == 0 {
		return ""
	}
	scheme := "http"
	if s.webs[0].secure {
		scheme = "https"
	}
	return scheme + "://" + s.webs[0].listener.Addr().String()
}

// MetricsURL is where metrics and health are on an address of their own; empty if they have none.
func (s *Server) MetricsURL() string {
	if len(s.webs) < 2 {
		return ""
	}
	return "http://" + s.webs[1].listener.Addr().String()
}

// offer puts the handlers behind the addresses.
func (s *Server) offer(ctx context.Context, o Options) error {
	s.webs[0].server.Handler = http.NotFoundHandler()
	return nil
}

// await is the engine's Wait, which a stop ends with what is known, as if its time were over.
func (s *Server) await(ctx context.Context, k ledger.Key) (ledger.Intent, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	i, err := s.Engine.Wait(waiting, k)
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		err = context.DeadlineExceeded
	}
	return i, err
}
