package sqlite

import (
	"context"
	"fmt"

	"github.com/pawlworks/pawl/fence"
	"github.com/pawlworks/pawl/ledger"
)

// Heartbeat implements [fence.Storage].
func (l *Ledger) Heartbeat(ctx context.Context, i fence.Instance) error {
	if i.ID == "" {
		return &ledger.InvalidError{Field: "id", Reason: "is empty; name the instance"}
	}
	err := l.writer.do(ctx, func(ctx context.Context, s *session) error {
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		_, err = s.exec(ctx, `INSERT INTO engine_instances (id, host, process, version, started_at, last_seen, stopped_at)
			VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET host = excluded.host, process = excluded.process,
			version = excluded.version, started_at = excluded.started_at, last_seen = excluded.last_seen, stopped_at = excluded.stopped_at`,
			i.ID, i.Host, i.Process, i.Version, timeText(i.StartedAt), timeText(now), timeText(i.StoppedAt))
		return err
	})
	if err != nil {
		return fmt.Errorf("heartbeat of %s: %w", i.ID, err)
	}
	return nil
}

// Instances implements [fence.Storage].
func (l *Ledger) Instances(ctx context.Context) (all []fence.Instance, err error) {
	now, err := l.clock.now()
	if err != nil {
		return nil, err
	}
	err = l.readers.read(ctx, func(ctx context.Context, s *session) error {
		all = nil
		return s.each(ctx, "SELECT id, host, process, version, started_at, last_seen, stopped_at FROM engine_instances ORDER BY started_at, id", nil,
			func(scan func(...any) error) error {
				var i fence.Instance
				err := scan(&i.ID, &i.Host, &i.Process, &i.Version, scanTime{&i.StartedAt}, scanTime{&i.LastSeen}, scanTime{&i.StoppedAt})
				i.Age = age(now, i.LastSeen)
				all = append(all, i)
				return err
			})
	})
	if err != nil {
		return nil, fmt.Errorf("read instances: %w", err)
	}
	return all, nil
}
