package core

import (
	"context"
	"sync"
)

// slots bound the sends at once of one channel. The bound can change while sends are under way: none of them is cut.
type slots struct {
	mu    sync.Mutex
	most  int
	used  int
	freed broadcast
}

// take waits for a free slot and takes as many as are free, up to batch. 0: stop ended.
func (s *slots) take(stop context.Context, batch int) int {
	for stop.Err() == nil {
		freed := s.freed.wait() // before the look, so that nothing is missed
		if n := s.tryTake(batch); n > 0 {
			return n
		}
		select {
		case <-stop.Done():
		case <-freed:
		}
	}
	return 0
}

func (s *slots) tryTake(batch int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := max(0, min(batch, s.most-s.used))
	s.used += n
	return n
}

func (s *slots) giveBack(n int) {
	s.mu.Lock()
	s.used -= n
	s.mu.Unlock()
	s.freed.wakeAll()
}

func (s *slots) resize(most int) {
	s.mu.Lock()
	s.most = most
	s.mu.Unlock()
	s.freed.wakeAll()
}
