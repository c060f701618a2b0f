package pgtest

import (
	"context"
	"fmt"
	"os"
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

// container is a Postgres in a container: what is tried where no server is named and no programs are found.
type container struct {
	running *postgres.PostgresContainer
	url     string
	image   string
}

func startContainer() (_ *container, err error) {
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
		postgres.BasicWaitStrategies())
	if err != nil {
		return nil, fmt.Errorf("testcontainers: %w", err)
	}
	url, err := running.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		_ = testcontainers.TerminateContainer(running)
		return nil, fmt.Errorf("testcontainers: %w", err)
	}
	return &container{running, url, image}, nil
}

func (c *container) close() { _ = testcontainers.TerminateContainer(c.running) }
