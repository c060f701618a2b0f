package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlworks/pawl/ledger"
)

const (
	selectNextInLane = `SELECT lane_position FROM effect_intents WHERE lane = ? AND lane_position >= ?
		AND state IN ('intent', 'dispatched') AND lane_turn_ended = 0 ORDER BY lane_position LIMIT 1`
	letNextInLaneGo = `UPDATE dispatch_queue SET turn_waiting = 0 WHERE turn_waiting = 1 AND (run_id, effect_key) =
		(SELECT run_id, effect_key FROM effect_intents WHERE lane = ? AND lane_position = ?)`
)

// errNotItsTurn says that another intent of the lane is before this one.
var errNotItsTurn = errors.New("another intent of the lane is before it")

// turnCome refuses an intent of a lane in which another one is before it.
func (s *session) turnCome(ctx context.Context, i ledger.Intent) error {
	if i.Lane == "" || i.State != ledger.StateIntent || i.LaneTurnEnded {
		return nil
	}
	turn, _, err := s.lane(ctx, i.Lane)
	if err != nil {
		return err
	}
	if i.LanePosition > turn {
		return fmt.Errorf("%s is at place %d of lane %q, whose turn is %d: %w", i.Key, i.LanePosition, i.Lane, turn, errNotItsTurn)
	}
	return nil
}

// lane reads the position whose turn it is, and the last number of the lane's sequence.
func (s *session) lane(ctx context.Context, lane string) (turn, number int64, err error) {
	if _, err = s.find(ctx, "SELECT turn, number FROM lanes WHERE lane = ?", []any{lane}, &turn, &number); err != nil {
		return 0, 0, fmt.Errorf("read lane %q: %w", lane, err)
	}
	return turn, number, nil
}

// endTurn moves the lane past an intent whose turn it is, and past those behind it that have ended already. An intent that ends before
// its turn moves nobody: its row says so when the turn comes. There is no claim that this transaction cannot see, because claims hold the
// write lock until they commit.
func (s *session) endTurn(ctx context.Context, i ledger.Intent) error {
	turn, _, err := s.lane(ctx, i.Lane)
	if err != nil || i.LanePosition != turn {
		return err
	}
	return s.advance(ctx, i.Lane, turn)
}

// advance looks for the first position from turn on whose turn has not ended, and lets it go.
func (s *session) advance(ctx context.Context, lane string, turn int64) error {
	next := int64(0)
	found, err := s.find(ctx, selectNextInLane, []any{lane, turn}, &next)
	if err != nil {
		return fmt.Errorf("find the next of lane %q: %w", lane, err)
	}
	if !found {
		if err := s.row(ctx, "SELECT next FROM lane_order WHERE lane = ?", []any{lane}, &next); err != nil {
			return fmt.Errorf("read order of lane %q: %w", lane, err)
		}
	}
	if _, err := s.exec(ctx, "UPDATE lanes SET turn = ? WHERE lane = ? AND turn < ?", next, lane, next); err != nil {
		return fmt.Errorf("advance lane %q: %w", lane, err)
	}
	if !found {
		return nil
	}
	if _, err := s.exec(ctx, letNextInLaneGo, lane, next); err != nil {
		return fmt.Errorf("let the next of lane %q go: %w", lane, err)
	}
	return nil
}
