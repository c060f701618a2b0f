package observe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestTheLedgerIsAskedOnceHoweverManyAskForReadiness(t *testing.T) {
	var asked atomic.Int64
	came, answer := make(chan struct{}), make(chan struct{})
	check := answers(func(context.Context) error {
		if asked.Add(1) == 1 {
			close(came)
		}
		<-answer
		return nil
	}, time.Hour)
	gone, cancel := context.WithCancel(t.Context())
	cancel() // one that goes away is no answer for the others
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if r := check(gone); r[0].Status != OK {
				t.Errorf("%+v", r)
			}
		})
	}
	<-came
	close(answer)
	group.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("the ledger was asked %d times", n)
	}
}

func TestAnAnswerOfTheLedgerDoesNotCountForEver(t *testing.T) {
	var away error
	check := answers(func(context.Context) error { return away }, 0)
	for _, step := range []struct {
		away error
		want Status
	}{{nil, OK}, {errors.New("connection refused"), Failed}, {nil, OK}} {
		away = step.away
		if r := check(t.Context()); r[0].Status != step.want {
			t.Errorf("got %+v, want %s", r, step.want)
		}
	}
}
