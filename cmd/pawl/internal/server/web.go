package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Times of a web server. A long poll lasts up to a minute, and reading a request must not end it: the time to read counts from the
// request's begin until its answer.
const (
	headerTimeout   = 10 * time.Second
	readTimeout     = 90 * time.Second
	writeTimeout    = 120 * time.Second
	idleTimeout     = 120 * time.Second
	maxHeader       = 32 << 10
	shutdownTimeout = 10 * time.Second
)

// web is one HTTP server on one address.
type web struct {
	key      string // of the configuration
	listener net.Listener
	server   *http.Server
	secure   bool
	drain    time.Duration // how long new connections are still taken in a stop
	serving  sync.WaitGroup
}

// listen takes the address, so that a wrong one is an error before anything is started.
func listen(ctx context.Context, key, address string, logger *slog.Logger) (*web, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: %s is in use: another pawl serve may be running; end it, or choose another address", key, address)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return &web{key: key, listener: l, server: &http.Server{
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}}, nil
}

// url is where it is; empty for one that is not there.
func (w *web) url() string {
	if w == nil {
		return ""
	}
	host := w.listener.Addr().String()
	if to, ok := w.listener.Addr().(*net.TCPAddr); ok && to.IP.IsUnspecified() { // nobody can call that, and no certificate names it
		host = net.JoinHostPort("localhost", strconv.Itoa(to.Port))
	}
	if w.secure {
		return "https://" + host
	}
	return "http://" + host
}

// serve answers until stop or close. failed gets why it ended, if that was neither.
func (w *web) serve(failed chan<- error) {
	w.serving.Go(func() {
		var err error
		if w.secure {
			err = w.server.ServeTLS(w.listener, "", "")
		} else {
			err = w.server.Serve(w.listener)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("%s: %w", w.key, err)
		}
	})
}

// stop ends in order: new connections for the drain time, then none, and an end to each request that is under way. Connections
// that stay open between requests are told to end from the beginning.
func (w *web) stop(ctx context.Context) error {
	w.server.SetKeepAlivesEnabled(false)
	t := time.NewTimer(w.drain)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	ending, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	err := w.server.Shutdown(ending)
	if err != nil { // requests that do not end
		err = errors.Join(fmt.Errorf("%s: requests were cut: %w", w.key, err), w.server.Close())
	}
	w.serving.Wait()
	return err
}

// close ends at once, also one that never served.
func (w *web) close() error {
	err := w.server.Close()
	if again := w.listener.Close(); err == nil && !errors.Is(again, net.ErrClosed) {
		err = again
	}
	w.serving.Wait()
	return err
}
