package server

import (
	"context"
	"log/slog"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
	"github.com/pawlworks/pawl/sdk/host"
)

// LaunchAdapter starts the adapter of one channel as the engine would, and returns when it is ready. The caller closes it. Errors are
// [*AdapterError] or [*config.Error].
func LaunchAdapter(ctx context.Context, c config.Config, name, executable string, logger *slog.Logger) (*host.Adapter, error) {
	return launch(ctx, c, name, executable, logger)
}

// ReceiptKeyPath is where the private receipt key is, and whether the engine makes it there at its first start.
func ReceiptKeyPath(c config.Config) (path string, mayMake bool) { return keyPath(c) }
