package pgtest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
)

const (
	// ImageVariable names the image of the last resort, a container.
	ImageVariable = "PAWL_TEST_POSTGRES_IMAGE"
	defaultImage  = "postgres:15-alpine"
	// containerStart bounds the start of a container, a pull included.
	containerStart = 3 * time.Minute
)

// Container is a Postgres in a container: what is tried where no server is named and no programs are found.
type Container struct {
	running *postgres.PostgresContainer
	url     string
	image   string
}

// NewContainer starts a server in a container of the test's own, removed at its end. Without an engine for containers the test is
// skipped by name; with CI=true it fails.
func NewContainer(t testing.TB) *Container {
	t.Helper()
	c, err := startContainer()
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(c.close)
	return c
}

// Database returns the URL of a fresh database in the container.
func (c *Container) Database(t testing.TB) string {
	t.Helper()
	return create(t, c.url)
}

func startContainer() (_ *Container, err error) {
	defer func() { // the library panics where it finds no engine to talk to
		if p := recover(); p != nil {
			err = fmt.Errorf("testcontainers: %v", p)
		}
	}()
	image := os.Getenv(ImageVariable)
	if image == "" {
		image = defaultImage
	}
	ctx, cancel := context.WithTimeout(context.Background(), containerStart)
	defer cancel()
	running, err := postgres.Run(ctx, image,
		postgres.WithDatabase("postgres"), postgres.WithUsername("postgres"), postgres.WithPassword("postgres"),
		// The library's own command has fsync=off, which a ledger refuses.
		testcontainers.WithCmd("postgres", "-c", "fsync=on", "-c", "max_connections=200", "-c", "max_prepared_transactions=10"),
		postgres.BasicWaitStrategies())
	if err != nil {
		_ = testcontainers.TerminateContainer(running) // it may have started and not answered
		return nil, fmt.Errorf("testcontainers: %w", err)
	}
	url, err := running.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		_ = testcontainers.TerminateContainer(running)
		return nil, fmt.Errorf("testcontainers: %w", err)
	}
	return &Container{running, url, image}, nil
}

func (c *Container) close() { _ = testcontainers.TerminateContainer(c.running) }
