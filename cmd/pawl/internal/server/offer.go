package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/pawlworks/pawl/cmd/pawl/internal/api"
	"github.com/pawlworks/pawl/ledger"
)

// takeAddresses listens, so that an address that cannot be had is an error before anything is started. Nobody is answered before Run.
func (s *Server) takeAddresses(ctx context.Context, o Options) (err error) {
	c := o.Config
	if o.API {
		if err := checkExposure(ctx, c, s.Ledger); err != nil {
			return err
		}
		if s.api, err = listen(ctx, "api.listen", c.API.Listen, s.logger); err != nil {
			return err
		}
		s.api.drain = c.API.Drain
		if c.API.TLS.On() {
			if s.cert, err = loadCertificate(c.API.TLS, s.logger); err != nil {
				return err
			}
			s.api.secure, s.api.server.TLSConfig = true, s.cert.config()
		}
	}
	if c.Metrics.Listen != "" && !o.Strict {
		if s.metrics, err = listen(ctx, "metrics.listen", c.Metrics.Listen, s.logger); err != nil {
			return err
		}
		if o.API {
			s.metrics.drain = c.API.Drain // health is asked there as long as the API answers
		}
	}
	return nil
}

// webs are those that are offered.
func (s *Server) webs() (all []*web) {
	for _, w := range []*web{s.api, s.metrics} {
		if w != nil {
			all = append(all, w)
		}
	}
	return all
}

// URL is where the API is, such as http://127.0.0.1:7240; empty if it is not offered.
func (s *Server) URL() string { return s.api.url() }

// MetricsURL is where metrics and health are on an address of their own; empty if they have none.
func (s *Server) MetricsURL() string { return s.metrics.url() }

// offer puts the handlers behind the addresses.
func (s *Server) offer(o Options) (err error) {
	if len(s.webs()) == 0 {
		return nil
	}
	if err := s.watch(); err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	metrics, health, ready := s.visible.MetricsHandler(), s.healthz(), s.readyz()
	if s.metrics != nil {
		apart := http.NewServeMux()
		apart.Handle(api.PathMetrics, metrics)
		apart.Handle(api.PathHealth, health)
		apart.Handle(api.PathReady, ready)
		s.metrics.server.Handler = apart
	}
	if s.api == nil {
		return nil
	}
	h, err := s.handler(o)
	if err == nil {
		s.api.server.Handler, err = api.Beside(h, metrics, health, ready)
	}
	if err != nil {
		return fmt.Errorf("api: %w", err)
	}
	return nil
}

// handler is the API.
func (s *Server) handler(o Options) (http.Handler, error) {
	service, err := api.NewService(api.ServiceOptions{
		Ledger: s.Ledger, Claim: s.Engine.Claim, Wake: s.Engine.Wake, Await: s.await, Health: s.Health, PublicKey: s.key.Public(), Issuer: o.Config.Issuer,
		ClockAllowance: s.Engine.Options().ClockAllowance, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	requests, err := s.requests()
	if err != nil {
		return nil, err
	}
	c := o.Config.API
	return api.NewHandler(api.HandlerOptions{
		Service: service, Version: o.Version, Logger: o.Logger, Tracer: s.visible.TracerProvider().Tracer(scope), Observe: requests,
		MaxClaimBody: int64(c.MaxBody), Stopping: s.stopping.Done(), Rate: float64(c.RequestsPerMinute) / 60, Burst: c.RequestsPerMinute,
	})
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
