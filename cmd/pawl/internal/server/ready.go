package server

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// readyTimeout bounds the question to the ledger, with which readiness is decided.
const readyTimeout = 2 * time.Second

// ErrStopping says that the server was asked to stop.
var ErrStopping = errors.New("the server is stopping")

// Ready says why the server should get no new work: it stops, its ledger does not answer, or its heartbeat is old. A channel that is not
// ready makes no server unready: the others run, and claims are taken.
func (s *Server) Ready(ctx context.Context) error {
	if s.stopping.Err() != nil {
		return ErrStopping
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if _, err := s.Ledger.Now(ctx); err != nil {
		return fmt.Errorf("the ledger does not answer: %w", err)
	}
	last := s.Engine.LastBeat()
	if last.IsZero() {
		return errors.New("the engine has not begun yet")
	}
	if age := time.Since(last); age > s.Engine.Options().HeartbeatTimeout {
		return fmt.Errorf("the engine's last heartbeat is %s old", age.Round(time.Second))
	}
	return nil
}
