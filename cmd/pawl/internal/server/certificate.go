package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
)

// certificateLook is how often the files of a certificate are looked at, when somebody connects.
const certificateLook = 30 * time.Second

// certificate is that of the API. Its files are read again when they have changed; a pair that cannot be used changes nothing.
type certificate struct {
	files  config.TLS
	logger *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	changed [2]time.Time // of the files that were read, or refused
	looked  time.Time
}

func loadCertificate(files config.TLS, logger *slog.Logger) (*certificate, error) {
	c := &certificate{files: files, logger: logger}
	if _, err := c.reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// reload reads the files again if they have changed, and reports whether they had.
func (c *certificate) reload() (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *certificate) read() (changed bool, err error) {
	c.looked = time.Now()
	var at [2]time.Time
	for i, path := range []string{c.files.Cert, c.files.Key} {
		info, err := os.Stat(path)
		if err != nil {
			return false, fmt.Errorf("api.tls: %w", err)
		}
		at[i] = info.ModTime()
	}
	if at == c.changed {
		return false, nil
	}
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil { // the cause quotes neither file
		return false, fmt.Errorf("api.tls: the certificate %s and the key %s cannot be used: %w", c.files.Cert, c.files.Key, err)
	}
	c.pair, c.changed = &pair, at
	return true, nil
}

// get is what a TLS handshake asks for.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= certificateLook {
		switch changed, err := c.read(); {
		case err != nil:
			c.logger.Error(EventCertificate, "error", err)
		case changed:
			c.logger.Info(EventCertificate)
		}
	}
	return c.pair, nil
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}
