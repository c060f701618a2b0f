package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/pawlworks/pawl/cmd/pawl/internal/api"
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
func (s *Server) offer(o Options) error {
	service, err := api.NewService(api.ServiceOptions{
		Ledger: s.Ledger, Wake: s.Engine.Wake, Await: s.await, Health: s.Health, PublicKey: s.key.Public(), Issuer: o.Config.Issuer,
		ClockAllowance: s.Engine.Options().ClockAllowance, Logger: o.Logger,
	})
	if err != nil {
		return fmt.Errorf("api: %w", err)
	}
	c := o.Config.API
	h := api.HandlerOptions{
		Service: service, Version: o.Version, Logger: o.Logger, MaxClaimBody: int64(c.MaxBody), Stopping: s.stopping.Done(),
		Rate: float64(c.RequestsPerMinute) / 60, Burst: c.RequestsPerMinute,
	}
	handler, err := api.NewHandler(h)
	if err != nil {
		return fmt.Errorf("api: %w", err)
	}
	metrics, health, ready := http.NotFoundHandler(), http.HandlerFunc(s.healthz), http.HandlerFunc(s.readyz)
	if s.webs[0].server.Handler, err = api.Beside(handler, metrics, health, ready); err != nil {
		return fmt.Errorf("api: %w", err)
	}
	if len(s.webs) > 1 {
		apart := http.NewServeMux()
		apart.Handle("GET "+api.PathMetrics, metrics)
		apart.Handle("GET "+api.PathHealth, health)
		apart.Handle("GET "+api.PathReady, ready)
		s.webs[1].server.Handler = apart
	}
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
